//! The page with plots: one self-contained HTML file, SVG inside, nothing fetched from anywhere. The only script
//! is the slider of [`inside`].
//!
//! [`page`] puts the sections together, [`svg`] draws shapes, [`scale`] maps figures to places and finds round ticks,
//! [`chart`] is the frame that all plots share, and [`lines`], [`bars`] and [`inside`] are the plots. Colours are classes of
//! `style.css`, which has a light and a dark set.

pub mod bars;
pub mod chart;
pub mod front;
pub mod inside;
pub mod lines;
pub mod page;
pub mod reproduction;
pub mod scale;
pub mod svg;
pub mod tables;
mod tenants;

use crate::failure::Failure;
use crate::files;
use crate::verdict::Row;
use std::path::Path;

/// Writes the report of `rows` to `path`.
pub fn write(path: &Path, title: &str, rows: &[Row]) -> Result<(), Failure> {
    let page = page::page(title, rows);
    files::write_file(path, |out| out.write_all(page.as_bytes()).map_err(|e| Failure::unwritable(path, &e)))
}
