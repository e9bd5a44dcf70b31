//! Draws the state diagrams of the documentation from the transition table.

use std::fmt::Write as _;

use super::status::{AssignmentStatus, ItemStatus};
use super::table::{self, AssignmentEffect};

/// The diagram of assignments, in Mermaid.
pub fn draw_assignments() -> String {
    let mut edges = vec![("[*]".to_owned(), AssignmentStatus::Pending.to_string(), "assign".to_owned())];
    for (from, input, line) in table::ASSIGNMENT {
        match line {
            AssignmentEffect::To(to) => edges.push((from.to_string(), to.to_string(), input.to_string())),
            AssignmentEffect::Follows(to) => {
                edges.push((from.to_string(), to.to_string(), format!("{input} (a new assignment)")));
            }
            AssignmentEffect::Repeats => {}
        }
    }
    draw_edges(edges)
}

/// The diagram of items, in Mermaid.
pub fn draw_items() -> String {
    let mut edges = vec![("[*]".to_owned(), ItemStatus::Open.to_string(), "import".to_owned())];
    for (from, input, outcomes) in table::ITEM {
        let edge = |to: &ItemStatus| (from.to_string(), to.to_string(), input.to_string());
        edges.extend(outcomes.iter().filter(|to| *to != from).map(edge));
    }
    draw_edges(edges)
}

/// Edges between the same two states are merged into one arrow.
fn draw_edges(edges: Vec<(String, String, String)>) -> String {
    let mut arrows: Vec<(String, String, Vec<String>)> = Vec::new();
    for (from, to, label) in edges {
        match arrows.iter_mut().find(|(a, b, _)| (a, b) == (&from, &to)) {
            Some((_, _, labels)) => labels.push(label),
            None => arrows.push((from, to, vec![label])),
        }
    }
    let mut text = String::from("stateDiagram-v2\n");
    for (from, to, labels) in arrows {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "    {from} --> {to}: {}", labels.join(", "));
    }
    text
}
