//! Tables of text: columns as wide as their widest cell, two spaces apart.

use std::fmt;

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

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
        let mut line = String::new();
        for ((cell, &width), align) in cells.iter().zip(widths).zip(&self.align) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let pad = " ".repeat(width - cell.chars().count());
            match align {
                Align::Left => line.extend([cell.as_str(), &pad]),
                Align::Right => line.extend([pad.as_str(), cell]),
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        all().try_for_each(|row| self.line(f, row, &widths))
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
}
