//! The page as a whole.

use super::svg::{escape, prose};
use super::{bars, inside, lines, tables, tenants};
use crate::format::plural;
use crate::verdict::{Row, all_cautions};

/// The page of `rows`, complete in itself.
pub fn page(title: &str, rows: &[Row]) -> String {
    let mut body = format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape(title), escape(&lead(rows)));
    body += &caution_list(rows);
    let details: Vec<String> = rows.iter().map(|r| tables::details(r, rows.len() == 1)).collect();
    let sections = [
        (
            "Summary",
            if rows.len() > 1 {
                "The first row is the baseline. Latency counts from arrival to completion."
            } else {
                "Latency counts from arrival to completion."
            },
            tables::summary(rows),
        ),
        (
            "Distribution of latency",
            "Further left is faster. Each further nine has as much room as the last, so the tail can be read: a point at 99 % says that one request in a hundred took longer.",
            lines::percentiles(rows),
        ),
        (
            "Where the time went",
            "The critical path of all requests: what the mean latency is made of. The parts add up to it exactly.",
            bars::phases(rows),
        ),
        (
            "What kept the hardware busy",
            "How many dies, channels or devices were at work on average, and with what. Background work is included.",
            bars::busy(rows),
        ),
        ("Over time", "Simulated time, from the first request that counts.", lines::histories(rows)),
        (
            "Tenants over time",
            "What each tenant got. Its device time, its share and the collection it caused stand in the summary.",
            lines::tenants(rows),
        ),
        (
            "Shares, collection, lending and wear",
            "What each tenant used of the devices, and what happened to it inside drives that tell tenants apart. A share is that of the device time from one sample to the next; a dashed upright is a change of tenants. Work counts when the drive settles it: a whole unit that is cleared shows at one moment, though its dies are at it for longer.",
            tenants::plots(rows),
        ),
        (
            "Inside the drives",
            "What the drives count, read off about two hundred times as the run goes on.",
            inside::drives(rows),
        ),
        ("Layers", "What each layer saw and counted, the top first.", details.concat()),
        ("Provenance", "Enough to get the same figures again.", tables::provenance(rows)),
    ];
    for (heading, text, content) in sections.into_iter().filter(|(_, _, content)| !content.is_empty()) {
        body += &format!("<section>\n<h2>{heading}</h2>\n<p>{text}</p>\n{content}</section>\n");
    }
    frame(title, &body)
}

/// A page that is complete in itself, around `body`.
pub fn frame(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"nandu\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        include_str!("style.css")
    )
}

/// What was replayed, in one line.
fn lead(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let p = &first.result.provenance;
    let loads: Vec<String> =
        p.workloads.iter().map(|w| format!("{} ({}, {})", w.source, w.origin, w.arrival)).collect();
    format!(
        "{} on {}: {}. Nandu {}, seed {}.",
        plural(first.result.total.requests, "request"),
        plural(rows.len() as u64, "stack"),
        loads.join("; "),
        p.version,
        p.seed
    )
}

fn caution_list(rows: &[Row]) -> String {
    let items: String = all_cautions(rows).iter().map(|c| format!("<li>{}</li>\n", prose(&c.text))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<ul class=\"cautions\">\n{items}</ul>\n")
}
