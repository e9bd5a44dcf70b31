//! A graph as SVG: layers from left to right, a box per node, a curve per edge.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::layers::assign_layers;
use super::sketch::{NodeSketch, count_statuses, truncate_text};
use crate::graph::NodeStatus;

/// Boxes per layer; the last box summarises the rest.
const ROWS: usize = 60;
const WIDTH: usize = 180;
const HEIGHT: usize = 40;
const ACROSS: usize = 260;
const DOWN: usize = 56;
const MARGIN: usize = 20;

pub fn draw_svg(nodes: &[NodeSketch]) -> String {
    let drawn = assign_layers(nodes);
    let mut spots: Vec<(usize, usize)> = vec![(0, 0); nodes.len()];
    for (column, layer) in drawn.layers.iter().enumerate() {
        for (row, node) in layer.iter().enumerate() {
            if let Some(spot) = spots.get_mut(*node) {
                *spot = (column, row.min(ROWS - 1));
            }
        }
    }
    let rows = drawn.layers.iter().map(Vec::len).max().unwrap_or(0).min(ROWS);
    let (width, height) = (drawn.layers.len() * ACROSS + MARGIN, rows * DOWN + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" font-family=\"ui-sans-serif, system-ui, sans-serif\">\n\
         <title>{} nodes: {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        nodes.len(),
        count_statuses(nodes.iter())
    );
    let ends = drawn.parents.iter().zip(&spots).flat_map(|(parents, to)| {
        parents.iter().filter_map(|parent| spots.get(*parent)).map(move |from| (*from, *to))
    });
    let edges: BTreeSet<((usize, usize), (usize, usize))> = ends.filter(|(from, to)| from != to).collect();
    out.push_str("<g fill=\"none\" stroke=\"#b4bac4\" stroke-width=\"1.5\">\n");
    for (from, to) in edges {
        draw_edge(&mut out, from, to);
    }
    out.push_str("</g>\n");
    for (column, layer) in drawn.layers.iter().enumerate() {
        let sketched: Vec<&NodeSketch> = layer.iter().filter_map(|node| nodes.get(*node)).collect();
        let shown = if sketched.len() > ROWS { ROWS - 1 } else { sketched.len() };
        let (shown, hidden) = sketched.split_at(shown);
        for (row, node) in shown.iter().enumerate() {
            let words = NodeBoxText { first: &node.id, second: node.status.as_str(), hint: &node.label };
            draw_box(&mut out, (column, row), status_colours(node.status), &words);
        }
        if !hidden.is_empty() {
            let (first, second) = (format!("{} more", hidden.len()), count_statuses(hidden.iter().copied()));
            let words = NodeBoxText { first: &first, second: &second, hint: &second };
            draw_box(&mut out, (column, ROWS - 1), ("#f6f7f9", "#8a93a3"), &words);
        }
    }
    out.push_str("</svg>\n");
    out
}

struct NodeBoxText<'a> {
    first: &'a str,
    second: &'a str,
    hint: &'a str,
}

fn box_corner((column, row): (usize, usize)) -> (usize, usize) {
    (column * ACROSS + MARGIN, row * DOWN + MARGIN)
}

fn draw_edge(out: &mut String, from: (usize, usize), to: (usize, usize)) {
    let ((x1, y1), (x2, y2)) = (box_corner(from), box_corner(to));
    let (x1, y1, y2) = (x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2);
    let (near, far) = (x1 + (ACROSS - WIDTH) / 2, x2.saturating_sub((ACROSS - WIDTH) / 2));
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "<path d=\"M{x1} {y1}C{near} {y1} {far} {y2} {x2} {y2}\"/>");
}

fn draw_box(out: &mut String, spot: (usize, usize), (fill, line): (&str, &str), words: &NodeBoxText<'_>) {
    let (x, y) = box_corner(spot);
    let (first, second) =
        (escape_xml(&truncate_text(words.first, 22)), escape_xml(&truncate_text(words.second, 28)));
    let title = escape_xml(&truncate_text(&format!("{} {} {}", words.first, words.second, words.hint), 300));
    let _ = writeln!(
        out,
        "<g transform=\"translate({x} {y})\"><title>{title}</title>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{line}\"/>\
         <text x=\"10\" y=\"17\" font-size=\"13\" fill=\"#1b2330\">{first}</text>\
         <text x=\"10\" y=\"32\" font-size=\"10\" fill=\"{line}\">{second}</text></g>"
    );
}

/// Fill and border colour of a box.
const fn status_colours(status: NodeStatus) -> (&'static str, &'static str) {
    match status {
        NodeStatus::Pending => ("#f6f7f9", "#6b7585"),
        NodeStatus::Running => ("#e8f1fd", "#1f6fd0"),
        NodeStatus::Pass => ("#e9f7ee", "#1d8348"),
        NodeStatus::Fail | NodeStatus::TaskError => ("#fdecec", "#c0392b"),
        NodeStatus::InfraError | NodeStatus::Timeout | NodeStatus::Crash => ("#fef3e6", "#b9650c"),
        NodeStatus::Skipped | NodeStatus::Filtered => ("#f3f0f8", "#7d6b9e"),
    }
}

fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Two code points that XML excludes.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
