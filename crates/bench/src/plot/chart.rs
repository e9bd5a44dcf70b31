//! One chart: a frame with labelled axes, and its marks.

use super::svg::{COLOURS, FAINT, INK, SvgDrawing, TextAnchor};

/// Margin for the labels.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 46.0;
const WIDEST_BAR: f64 = 60.0;

/// Position and title of a chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChartFrame<'a> {
    pub(super) at: (f64, f64),
    pub(super) size: (f64, f64),
    pub(super) title: &'a str,
    pub(super) across: &'a str,
    pub(super) up: &'a str,
}

/// A named curve.
#[derive(Debug, Clone)]
pub(super) struct ChartCurve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Named groups of bars, one bar per series.
#[derive(Debug, Clone)]
pub(super) struct ChartBars {
    pub(super) series: Vec<String>,
    pub(super) groups: Vec<(String, Vec<f64>)>,
}

impl ChartFrame<'_> {
    /// Curves over a linear axis.
    pub(super) fn draw_curves(&self, svg: &mut SvgDrawing, curves: &[ChartCurve]) {
        let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
        let right = round_up(all().map(|(x, _)| x).fold(0.0, f64::max));
        let top = round_up(all().map(|(_, y)| y).fold(0.0, f64::max));
        self.draw_axes(svg, top);
        for tick in 0..=5 {
            let value = right * f64::from(tick) / 5.0;
            svg.draw_text(
                (self.x(value / right), self.bottom() + 16.0),
                11.0,
                TextAnchor::Middle,
                &axis_label(value),
            );
        }
        for (at, curve) in curves.iter().enumerate() {
            let points: Vec<_> =
                curve.points.iter().map(|(x, y)| (self.x(x / right), self.y(y / top))).collect();
            svg.draw_curve(&points, COLOURS[at % COLOURS.len()]);
        }
        self.draw_legend(svg, &curves.iter().map(|curve| curve.name.as_str()).collect::<Vec<_>>());
    }

    pub(super) fn draw_bars(&self, svg: &mut SvgDrawing, bars: &ChartBars) {
        let top = round_up(bars.groups.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max));
        self.draw_axes(svg, top);
        let groups = crate::usage::as_f64(bars.groups.len().max(1));
        let width = (self.x(1.0) - self.x(0.0)) / groups;
        let each = (width * 0.8 / crate::usage::as_f64(bars.series.len().max(1))).min(WIDEST_BAR);
        for (group, (name, values)) in bars.groups.iter().enumerate() {
            let middle = self.x(0.0) + width * (crate::usage::as_f64(group) + 0.5);
            let left = middle - each * crate::usage::as_f64(values.len()) / 2.0;
            for (at, value) in values.iter().enumerate() {
                let y = self.y(value / top);
                let title = format!(
                    "{name}, {}: {}",
                    bars.series.get(at).map_or("", String::as_str),
                    axis_label(*value)
                );
                let x = left + each * crate::usage::as_f64(at);
                svg.draw_bar((x, y), (each * 0.92, self.bottom() - y), COLOURS[at % COLOURS.len()], &title);
                svg.draw_text((x + each / 2.0, y - 4.0), 9.0, TextAnchor::Middle, &axis_label(*value));
            }
            svg.draw_text((middle, self.bottom() + 16.0), 11.0, TextAnchor::Middle, name);
        }
        self.draw_legend(svg, &bars.series.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn draw_axes(&self, svg: &mut SvgDrawing, top: f64) {
        svg.draw_text((self.at.0 + LEFT, self.at.1 + 16.0), 14.0, TextAnchor::Start, self.title);
        for tick in 0..=4 {
            let part = f64::from(tick) / 4.0;
            let y = self.y(part);
            svg.draw_line((self.x(0.0), y), (self.x(1.0), y), if tick == 0 { INK } else { FAINT });
            svg.draw_text((self.x(0.0) - 6.0, y + 4.0), 11.0, TextAnchor::End, &axis_label(top * part));
        }
        svg.draw_line((self.x(0.0), self.y(0.0)), (self.x(0.0), self.y(1.0)), INK);
        svg.draw_text(
            ((self.x(0.0) + self.x(1.0)) / 2.0, self.bottom() + 34.0),
            11.0,
            TextAnchor::Middle,
            self.across,
        );
        svg.draw_text((self.at.0 + 4.0, self.at.1 + 34.0), 11.0, TextAnchor::Start, self.up);
    }

    fn draw_legend(&self, svg: &mut SvgDrawing, names: &[&str]) {
        let mut x = self.at.0 + LEFT + 90.0;
        for (at, name) in names.iter().enumerate() {
            svg.draw_bar((x, self.at.1 + 26.0), (10.0, 10.0), COLOURS[at % COLOURS.len()], name);
            svg.draw_text((x + 14.0, self.at.1 + 35.0), 11.0, TextAnchor::Start, name);
            x += 30.0 + 6.2 * crate::usage::as_f64(name.chars().count());
        }
    }

    fn x(&self, part: f64) -> f64 {
        self.at.0 + LEFT + part * (self.size.0 - LEFT - RIGHT)
    }

    fn y(&self, part: f64) -> f64 {
        self.bottom() - part * (self.size.1 - TOP - BOTTOM)
    }

    fn bottom(&self) -> f64 {
        self.at.1 + self.size.1 - BOTTOM
    }
}

/// The next round number, for the topmost label.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let magnitude = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * magnitude).find(|top| *top >= value * 1.000_001).unwrap_or(value * 1.2)
}

/// At most three digits, without trailing zeros.
fn axis_label(value: f64) -> String {
    let (value, unit) = if value >= 1000.0 { (value / 1000.0, "k") } else { (value, "") };
    let digits = match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_top_is_round_number() {
        for (value, top) in [(0.0, 1.0), (0.9, 1.0), (7.3, 8.0), (12_345.0, 16_000.0), (f64::NAN, 1.0)] {
            assert!((round_up(value) - top).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.25, "0.25"), (12.5, "12.5"), (250.4, "250"), (1250.0, "1.25k"), (20_000.0, "20k")]
        {
            assert_eq!(axis_label(value), text);
        }
    }
}
