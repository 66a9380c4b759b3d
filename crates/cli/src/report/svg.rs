//! SVG as text. Coordinates have one decimal: enough for a screen, and half the size of the page.

use std::fmt::Write;

/// `text` with the characters that HTML gives a meaning replaced, quotes included.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Escaped prose, in which an option such as `--time-scale` is not broken at its hyphen, and what stands between backticks is code.
pub fn prose(text: &str) -> String {
    let word = |word: &str| match word.contains("--") {
        true => format!("<span class=\"whole\">{}</span>", escape(word)),
        false => escape(word),
    };
    let words = |text: &str| text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return words(text);
    }
    let part = |(place, part): (usize, &&str)| match place % 2 {
        0 => words(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

/// An escaped name, which a narrow column breaks behind its dots and nowhere else.
pub fn name(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive('.') {
        // A figure such as 0.07 stays whole.
        if !out.is_empty() && part.starts_with(|c: char| c.is_alphabetic()) {
            out.push_str("<wbr>");
        }
        out += &escape(part);
    }
    out
}

/// A drawing under construction.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// Begins there.
    Start,
    /// Is centred there.
    Middle,
    /// Ends there.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

impl Svg {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A line through `points`.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() < 2 {
            return;
        }
        let _ = write!(self.body, r#"<polyline class="{class}" points=""#);
        for (x, y) in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>\n");
    }

    /// A filled rectangle that says `title` when pointed at.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{h:.1}"><title>{}</title></rect>"#,
            w.max(0.0),
            escape(title)
        );
    }

    /// A point that says `title` when pointed at.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"><title>{}</title></circle>"#,
            escape(title)
        );
    }

    /// A text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{}">{}</text>"#,
            anchor.name(),
            escape(text)
        );
    }

    /// A text that reads upwards.
    pub fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            escape(text)
        );
    }

    /// The drawing as an element; `label` is read to those who cannot see it.
    pub fn finish(self, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            self.width,
            self.height,
            escape(label),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_of_a_users_text_is_markup() {
        let text = super::escape("<script>alert(\"x\" & 'y')</script>\u{7}");
        assert_eq!(text, "&lt;script&gt;alert(&quot;x&quot; &amp; &#39;y&#39;)&lt;/script&gt; ");
    }

    #[test]
    fn options_stay_whole_and_names_break_behind_dots() {
        assert_eq!(
            super::prose("lower it (--time-scale 2, <b>)"),
            "lower it <span class=\"whole\">(--time-scale</span> 2, &lt;b&gt;)"
        );
        assert_eq!(super::prose("`a-b` & `<c>`"), "<code>a-b</code> &amp; <code>&lt;c&gt;</code>");
        assert_eq!(super::prose("a ` b"), "a ` b");
        assert_eq!(super::name("tenants.data.p99.9 <0.07"), "tenants.<wbr>data.<wbr>p99.9 &lt;0.07");
    }
}
