//! Inside the drives over time: erased blocks, what collection does, write amplification from moment to moment, power and starts
//! of disks, what rings hold; and the blocks of the flash as a picture with a slider.
//!
//! The picture is the only part of a page that has a script: a few lines that draw one character for each block. It is
//! drawn for a single stack only, and neighbouring blocks are joined where there are more than [`CELLS`].

use super::chart::{Axis, Chart, legend, series, short};
use super::scale::Scale;
use super::svg::escape;
use crate::format::{count, three, time};
use crate::verdict::Row;
use nandu_base::FlashMap;
use nandu_sim::samples::{DeviceSamples, Samples};

/// Most cells of a picture.
const CELLS: usize = 20_000;

/// What a plot shows of one device between two samples.
struct Figure {
    title: &'static str,
    label: &'static str,
    /// Value at sample `i`; nothing when the device has no such figure, or none there.
    of: fn(&DeviceSamples, &[u64], usize) -> Option<f64>,
    /// Several devices of a stack: their sum, or else their mean.
    sums: bool,
    show: fn(f64) -> String,
}

const FIGURES: [Figure; 8] = [
    Figure {
        title: "Erased blocks",
        label: "erased blocks",
        of: |device, _, i| Some(device.counter("free_blocks")?[i] as f64),
        sums: true,
        show: whole,
    },
    Figure {
        title: "Pages moved by garbage collection",
        label: "pages moved per second",
        of: |device, times, i| rate(device.counter("gc_pages_moved")?, times, i),
        sums: true,
        show: whole,
    },
    Figure {
        title: "Erases",
        label: "erases per second",
        of: |device, times, i| {
            let erases = device.counter("erase_count").or_else(|| device.counter("unit_erases"))?;
            rate(erases, times, i)
        },
        sums: true,
        show: |v| if v == 0.0 { "0".into() } else { short(&three(v)) },
    },
    Figure {
        title: "Write amplification from sample to sample",
        label: "programmed / host pages",
        of: |device, _, i| {
            let host = grown(device.counter("host_pages_written")?, i)?;
            let programmed = grown(device.counter("nand_pages_programmed")?, i)?;
            (host > 0).then(|| programmed as f64 / host as f64)
        },
        sums: false,
        show: |v| if v == 0.0 { "0".into() } else { short(&three(v)) },
    },
    Figure {
        title: "Power of disks",
        label: "W, mean from sample to sample",
        of: |device, times, i| Some(rate(device.counter("energy_nj")?, times, i)? / 1e9),
        sums: true,
        show: |v| if v == 0.0 { "0".into() } else { short(&three(v)) },
    },
    Figure {
        title: "Power of operations of bare flash",
        label: "mW, mean from sample to sample",
        of: |device, times, i| Some(rate(device.counter("operations_energy_nj")?, times, i)? / 1e6),
        sums: true,
        show: |v| if v == 0.0 { "0".into() } else { short(&three(v)) },
    },
    Figure {
        title: "Starts of disks so far",
        label: "starts of the spindle",
        of: |device, _, i| Some(device.counter("spin_ups")?[i] as f64),
        sums: true,
        show: whole,
    },
    Figure {
        title: "Pages in rings that the disk lacks",
        label: "dirty pages",
        of: |device, _, i| {
            let rings = ["slc_dirty_pages", "mlc_dirty_pages"].map(|name| device.counter(name).map(|c| c[i]));
            rings.into_iter().flatten().reduce(|a, b| a + b).map(|n| n as f64)
        },
        sums: true,
        show: whole,
    },
];

fn whole(value: f64) -> String {
    count(value.round() as u64)
}

fn grown(values: &[u64], i: usize) -> Option<u64> {
    values[i].checked_sub(values[i.checked_sub(1)?])
}

fn rate(values: &[u64], times: &[u64], i: usize) -> Option<f64> {
    let ns = times[i] - times[i.checked_sub(1)?];
    (ns > 0).then_some(grown(values, i)? as f64 * 1e9 / ns as f64)
}

/// Samples further apart than so many times the usual are not joined: nothing is known between them.
const GAP: u64 = 5;

/// The figure of all devices of a stack, as one line for each stretch without a gap.
fn line(samples: &Samples, figure: &Figure) -> Vec<Vec<(f64, f64)>> {
    let times: Vec<u64> = samples.times.iter().map(|t| t.0).collect();
    let point = |i: usize| {
        let known: Vec<f64> = samples.devices.iter().filter_map(|d| (figure.of)(d, &times, i)).collect();
        let total: f64 = known.iter().sum();
        let value = if figure.sums { total } else { total / known.len() as f64 };
        (!known.is_empty()).then(|| (times[i] as f64, value))
    };
    let mut apart: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    apart.sort_unstable();
    let usual = apart.get(apart.len() / 2).copied().unwrap_or(0);
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut joins = false;
    for i in 0..times.len() {
        let far = i > 0 && times[i] - times[i - 1] > GAP * usual;
        match point(i) {
            Some(point) if joins && !far => lines.last_mut().expect("it joins one").push(point),
            Some(point) => lines.push(vec![point]),
            None => {}
        }
        joins = point(i).is_some();
    }
    lines
}

fn plot(rows: &[Row], figure: &Figure) -> String {
    let lines: Vec<Vec<Vec<(f64, f64)>>> = rows.iter().map(|row| line(&row.samples, figure)).collect();
    let all = || lines.iter().flatten().flatten();
    let (end, most) = all().fold((0.0f64, 0.0f64), |(t, v), p| (t.max(p.0), v.max(p.1)));
    if end == 0.0 || most == 0.0 {
        return String::new();
    }
    let axis_time = |ns: f64| if ns == 0.0 { "0".into() } else { short(&time(ns as u64)) };
    let x = Axis::new(Scale::Linear { lo: 0.0, hi: end }, "simulated time", axis_time);
    let y = Axis::new(Scale::from_zero(most), figure.label, figure.show);
    let mut chart = Chart::new(250.0, &x, &y);
    for (i, stretches) in lines.iter().enumerate() {
        stretches.iter().for_each(|stretch| chart.line(&format!("{} thin", series(i)), stretch));
        for &point in stretches.iter().flatten() {
            let title = format!("{} at {}: {}", rows[i].label, axis_time(point.0), (figure.show)(point.1));
            // A stretch of one sample has no line.
            let alone = stretches.iter().any(|stretch| stretch[..] == [point]);
            let (class, radius) = if alone { (format!("dot c{}", i % 8), 2.4) } else { ("hit".into(), 5.0) };
            if alone || rows.len() < 4 {
                chart.dot(&class, point, radius, &title);
            }
        }
    }
    format!("<h3>{}</h3>\n{}", figure.title, chart.svg.finish(&format!("{} over time", figure.label)))
}

/// The plots of all stacks, and the picture of the blocks when there is one stack. Empty where there is no drive.
pub fn drives(rows: &[Row]) -> String {
    let plots: String = FIGURES.iter().map(|figure| plot(rows, figure)).collect();
    if plots.is_empty() {
        return plots;
    }
    let names =
        legend(&rows.iter().enumerate().map(|(i, r)| (series(i), r.label.clone())).collect::<Vec<_>>());
    let pictures = match rows {
        [row] => row.samples.devices.iter().map(|d| picture(&row.samples, d)).collect(),
        _ => String::new(),
    };
    names + &plots + &pictures
}

/// Levels that a character tells apart.
const LEVELS: u64 = 64;

/// A level as a character that needs no escape anywhere.
fn digit(level: u64) -> char {
    const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    char::from(DIGITS[level.min(LEVELS - 1) as usize])
}

/// A level for each `join` neighbours in a row of `row` blocks: their mean, from 0 for none to 63 for `most`.
fn levels(values: &[u32], row: usize, join: usize, most: u64) -> String {
    let rows = values.chunks(row);
    let cells = rows.flat_map(|row| row.chunks(join)).map(|cell| {
        let total: u64 = cell.iter().map(|&v| u64::from(v)).sum();
        let whole = most.max(1) * cell.len() as u64;
        // Something is never shown as nothing.
        digit((total * (LEVELS - 1)).div_ceil(whole))
    });
    cells.collect()
}

fn picture(samples: &Samples, device: &DeviceSamples) -> String {
    let Some((_, first)) = device.maps.first() else { return String::new() };
    let row = first.blocks_per_plane.max(1) as usize;
    let join = first.valid.len().div_ceil(CELLS).max(1);
    let (columns, planes) = (row.div_ceil(join), first.valid.len() / row);
    let base = first.erases.clone();
    let worn = |map: &FlashMap| map.erases.iter().zip(&base).map(|(e, b)| e - b.min(e)).collect::<Vec<u32>>();
    let most = device.maps.iter().flat_map(|(_, map)| worn(map)).max().unwrap_or(0);
    let frames: Vec<String> = device
        .maps
        .iter()
        .map(|(number, map)| {
            let valid = levels(&map.valid, row, join, u64::from(map.pages_per_block));
            let wear = levels(&worn(map), row, join, u64::from(most));
            format!("[\"{}\",\"{valid}\",\"{wear}\"]", short(&time(samples.times[*number].0)))
        })
        .collect();
    let joined = if join > 1 { format!(" A cell is {join} blocks.") } else { String::new() };
    format!(
        "<h3>The blocks of {name}</h3>\n<p>One cell for each block, one row for each of {planes} planes: above, how much of it is \
         valid (the more, the stronger the colour); below, its erases in this run, at most {most}.{joined} Move the slider through the run.</p>\n\
         <div class=\"blocks\" data-columns=\"{columns}\" data-rows=\"{planes}\">\n\
         <label><input type=\"range\" min=\"0\" max=\"{last}\" value=\"{last}\"> <output></output></label>\n\
         <canvas title=\"valid pages\"></canvas>\n<canvas title=\"erases\"></canvas>\n\
         <noscript>The picture needs a script.</noscript>\n\
         <script type=\"application/json\">[{frames}]</script>\n</div>\n<script>{script}</script>\n",
        name = escape(&device.device),
        most = count(u64::from(most)),
        last = frames.len() - 1,
        frames = frames.join(","),
        script = include_str!("blocks.js"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_share_and_something_is_not_nothing() {
        assert_eq!(levels(&[0, 128, 64, 1], 4, 1, 128), "0_W1");
        // Neighbours are joined within a row: 0 and 128, 64 alone; 64 and 8, 8 alone.
        assert_eq!(levels(&[0, 128, 64, 64, 8, 8], 3, 2, 128), "WWI4");
        assert_eq!(levels(&[0, 0], 2, 1, 0), "00");
    }

    #[test]
    fn nothing_is_drawn_where_no_sample_was_taken() {
        let counters = vec![("free_blocks", vec![9, 8, 7, 6, 5, 4])];
        let device = DeviceSamples { device: "d".into(), counters, maps: Vec::new() };
        let times = [0, 10, 20, 30, 900, 910].map(nandu_base::Span).to_vec();
        let samples = Samples { times, devices: vec![device], ..Samples::default() };
        let lines = line(&samples, &FIGURES[0]);
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2], "{lines:?}");
    }

    #[test]
    fn rates_come_from_neighbours() {
        let times = [0, 500_000_000, 500_000_000, 2_500_000_000];
        assert_eq!(rate(&[0, 10, 10, 30], &times, 1), Some(20.0));
        assert_eq!(rate(&[0, 10, 10, 30], &times, 2), None);
        assert_eq!(rate(&[0, 10, 10, 30], &times, 3), Some(10.0));
        assert_eq!(rate(&[0, 10, 10, 30], &times, 0), None);
    }
}
