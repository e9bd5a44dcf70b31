//! SVG text: elements with escaped content, and nothing else.

use std::fmt::Write;

/// Colours that differ in hue and in lightness, for colour-blind readers.
pub(super) const COLOURS: [&str; 8] =
    ["#1b6ca8", "#d1662b", "#3a923a", "#8d5fb0", "#b8860b", "#a83253", "#3f8f8f", "#6b6b6b"];
pub(super) const INK: &str = "#222222";
pub(super) const FAINT: &str = "#d8d8d8";

/// An SVG document under construction.
#[derive(Debug, Default)]
pub(super) struct SvgDrawing {
    body: String,
}

/// Anchor of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextAnchor {
    Start,
    Middle,
    End,
}

impl TextAnchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl SvgDrawing {
    pub(super) fn draw_text(&mut self, at: (f64, f64), size: f64, anchor: TextAnchor, text: &str) {
        let (x, y, anchor) = (format_number(at.0), format_number(at.1), anchor.name());
        let text = escape_text(text);
        // Writing to a String does not fail.
        let _ = writeln!(
            self.body,
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{INK}">{text}</text>"#
        );
    }

    pub(super) fn draw_line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(format_number);
        let _ = writeln!(self.body, r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>"#);
    }

    pub(super) fn draw_bar(&mut self, at: (f64, f64), size: (f64, f64), colour: &str, title: &str) {
        let [x, y, width, height] = [at.0, at.1, size.0.max(0.0), size.1.max(0.0)].map(format_number);
        let title = escape_text(title);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"><title>{title}</title></rect>"#
        );
    }

    pub(super) fn draw_curve(&mut self, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", format_number(*x), format_number(*y))).collect();
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.8"/>"#,
            points.join(" ")
        );
    }

    /// The whole file.
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        let (width, height) = (format_number(width), format_number(height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// A value that is not a number is drawn at zero, so that the file stays valid.
fn format_number(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { "0".to_owned() }
}

/// Text that is safe in content and in attributes; control characters are not allowed in XML at all.
pub(super) fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(
            escape_text("</text><script>&\"'\u{0}\n"),
            "&lt;/text&gt;&lt;script&gt;&amp;&quot;&#39;\u{fffd} "
        );
        let mut svg = SvgDrawing::default();
        svg.draw_text((1.0, 2.0), 10.0, TextAnchor::Middle, "<b>");
        svg.draw_bar((0.0, 0.0), (1.0, -5.0), "#000", "a & b");
        let text = svg.finish(10.0, 10.0);
        assert!(!text.contains("<b>") && text.contains("&lt;b&gt;") && text.contains("a &amp; b"));
        assert!(text.contains("height=\"0.0\""), "a negative height is none: {text}");
    }

    #[test]
    fn nan_is_drawn_at_zero() {
        let mut svg = SvgDrawing::default();
        svg.draw_curve(&[(f64::NAN, 1.0), (2.0, f64::INFINITY)], "#000");
        assert!(svg.finish(1.0, 1.0).contains("points=\"0,1.0 2.0,0\""));
    }
}
