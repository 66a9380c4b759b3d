//! The hard disk against measured drives and data sheets.

mod disk;
mod sheets;
mod valid;
