//! Tables of text: columns as wide as their widest cell, two spaces apart, in no more than [`WIDTH`] columns of a terminal, on a terminal or not.
//!
//! Where that is too wide, columns of words are broken between words, the widest first, down to [`READABLE`]. What would be too wide even so stands in parts,
//! one below the other, each with the first column. A word is never broken, so a long name can stand over.

use crate::output::{WIDTH, broken, words};
use std::fmt;
use std::ops::Range;

/// Columns of words are not made narrower for others.
const READABLE: usize = 18;
/// Between two columns.
const GAP: usize = 2;

/// On which side the cells of a column line up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    head: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads; a head that begins with `<` has words below it, the others have figures.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
        let columns = heads.into_iter().map(|h| match h.strip_prefix('<') {
            Some(words) => (words.to_string(), Align::Left),
            None => (h.to_string(), Align::Right),
        });
        let (head, align) = columns.unzip();
        Table { head, align, rows: Vec::new() }
    }

    /// Adds a row with one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.head.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The head and the rows.
    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.head).chain(&self.rows)
    }

    /// The longest of what `lengths` finds in each cell, for each column.
    fn widest(&self, lengths: impl Fn(&str) -> usize) -> Vec<usize> {
        let of = |column: usize| self.all().map(|row| lengths(&row[column])).max().unwrap_or(0);
        (0..self.head.len()).map(of).collect()
    }

    /// How wide each column is, and the columns of each part.
    fn layout(&self) -> (Vec<usize>, Vec<Range<usize>>) {
        let mut widths = self.widest(|cell| cell.chars().count());
        let words = self.widest(longest);
        let least = |column: usize| match self.align[column] {
            Align::Left => words[column].max(READABLE).min(widths[column]),
            Align::Right => widths[column],
        };
        let least: Vec<usize> = (0..widths.len()).map(least).collect();
        let columns = widths.len();
        if total(&least) <= WIDTH {
            while total(&widths) > WIDTH {
                let may = (0..columns).filter(|&c| widths[c] > least[c]);
                let widest = may.max_by_key(|&c| widths[c]).expect("not all are as narrow as can be");
                widths[widest] -= 1;
            }
            return (widths, std::iter::once(1..columns).collect());
        }
        for column in 1..columns {
            let room = WIDTH.saturating_sub(widths[0] + GAP).max(least[column]);
            widths[column] = widths[column].min(room);
        }
        // The first column, then as many as there is room for.
        let (mut parts, mut from) = (Vec::new(), 1);
        while from < columns {
            let fits = |to: &usize| widths[0] + GAP + total(&widths[from..*to]) <= WIDTH;
            let to = (from + 1..=columns).take_while(fits).last().unwrap_or(from + 1);
            parts.push(from..to);
            from = to;
        }
        if parts.is_empty() {
            parts.push(1..columns);
        }
        (widths, parts)
    }

    /// The cells of `columns`, in as many lines as the one with most words needs.
    fn row_of(
        &self,
        f: &mut fmt::Formatter<'_>,
        row: &[String],
        columns: &[usize],
        widths: &[usize],
    ) -> fmt::Result {
        let cells: Vec<Vec<&str>> = columns.iter().map(|&c| broken(&row[c], widths[c], widths[c])).collect();
        for turn in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = String::new();
            for (cell, &column) in cells.iter().zip(columns) {
                let cell = cell.get(turn).copied().unwrap_or("");
                let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                if column != columns[0] {
                    line.push_str(&" ".repeat(GAP));
                }
                match self.align[column] {
                    Align::Left => line.extend([cell, &pad]),
                    Align::Right => line.extend([pad.as_str(), cell]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Columns of the longest word of a cell.
fn longest(cell: &str) -> usize {
    words(cell).into_iter().map(|word| cell[word].chars().count()).max().unwrap_or(0)
}

/// Columns side by side.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (widths, parts) = self.layout();
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let columns: Vec<usize> = std::iter::once(0).chain(part).collect();
            self.all().try_for_each(|row| self.row_of(f, row, &columns, &widths))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["<name", "mean", "<verdict"]);
        table.row(["a".into(), "1.00 ms".into(), "baseline".into()]);
        table.row(["größer".into(), "12 us".into(), String::new()]);
        assert_eq!(
            table.to_string(),
            "name       mean  verdict\na       1.00 ms  baseline\ngrößer    12 us\n"
        );
    }

    fn widths_of(text: &str) -> Vec<usize> {
        text.lines().map(|line| line.chars().count()).collect()
    }

    #[test]
    fn words_are_broken_where_a_table_is_too_wide() {
        let mut table = Table::new(["<name", "mean", "<what it is"]);
        let words = "a word and another one, ".repeat(6);
        table.row(["sieve".into(), "1.00 ms".into(), words.trim_end().into()]);
        table.row(["arc".into(), "2.00 ms".into(), "short".into()]);
        let text = table.to_string();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(widths_of(&text).into_iter().all(|w| w <= WIDTH), "{text}");
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with(&" ".repeat(16))), "{text}");
    }

    #[test]
    fn what_is_wider_stands_in_parts_with_the_first_column() {
        let heads: Vec<String> = (0..20).map(|n| format!("figure {n:02}")).collect();
        let mut table = Table::new(std::iter::once("<stack").chain(heads.iter().map(String::as_str)));
        table.row(std::iter::once("small".to_string()).chain((0..20).map(|n| format!("{n} ms"))));
        let text = table.to_string();
        assert!(widths_of(&text).into_iter().all(|w| w <= WIDTH), "{text}");
        let parts: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(parts.len(), 3, "{text}");
        assert!(parts.iter().all(|part| part.contains("stack") && part.contains("small")), "{text}");
        assert!(
            (0..20).all(|n| text.contains(&format!("figure {n:02}")) && text.contains(&format!(" {n} ms")))
        );
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        let mut table = Table::new(["<file", "size"]);
        let path = "/a/very/long/path".repeat(8);
        table.row([path.clone(), "4 KiB".into()]);
        assert!(table.to_string().contains(&path));
    }
}
