//! Draws a graph as text: layer by layer, one line per node, the most relevant status first.

use super::layers::layers;
use super::sketch::{Sketch, counted, cut};
use crate::graph::NodeStatus;

/// Nodes shown per layer.
const SHOWN: usize = 20;
/// Layers shown at either end.
const ENDS: usize = 30;
/// Parents that are named.
const NAMED: usize = 3;

pub fn ascii(nodes: &[Sketch]) -> String {
    let drawn = layers(nodes);
    let sketched =
        |places: &[usize]| -> Vec<&Sketch> { places.iter().filter_map(|at| nodes.get(*at)).collect() };
    let total = drawn.layers.len();
    let mut text = format!("{} nodes: {}\n", nodes.len(), counted(nodes.iter()));
    for (number, places) in drawn.layers.iter().enumerate() {
        if number < ENDS || number + ENDS >= total {
            layer(&mut text, number + 1, sketched(places));
        } else if number == ENDS {
            let hidden: Vec<usize> =
                drawn.layers.iter().skip(ENDS).take(total - 2 * ENDS).flatten().copied().collect();
            let count = total - 2 * ENDS;
            text.push_str(&format!("… {count} more layers: {}\n", counted(sketched(&hidden).into_iter())));
        }
    }
    text
}

fn layer(text: &mut String, number: usize, mut nodes: Vec<&Sketch>) {
    text.push_str(&format!("layer {number}\n"));
    if nodes.len() > SHOWN {
        // A stable sort keeps the layout order within a status.
        nodes.sort_by_key(|node| interest(node.status));
    }
    let (shown, hidden) = nodes.split_at(SHOWN.min(nodes.len()));
    let width = shown.iter().map(|node| node.id.chars().count()).max().unwrap_or(0);
    for node in shown {
        let line = format!(
            "  {} {:width$}  {:11}  {}  {}",
            mark(node.status),
            node.id,
            node.status.as_str(),
            named(&node.parents),
            cut(&node.label, 60),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if !hidden.is_empty() {
        text.push_str(&format!("  … {} more: {}\n", hidden.len(), counted(hidden.iter().copied())));
    }
}

fn named(parents: &[String]) -> String {
    if parents.is_empty() {
        return String::new();
    }
    let more = parents.len().saturating_sub(NAMED);
    let names = parents.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("<- {names} and {more} more") } else { format!("<- {names}") }
}

/// Sort key: the statuses that operators look for come first.
const fn interest(status: NodeStatus) -> u8 {
    match status {
        NodeStatus::Fail
        | NodeStatus::TaskError
        | NodeStatus::InfraError
        | NodeStatus::Timeout
        | NodeStatus::Crash => 0,
        NodeStatus::Running => 1,
        NodeStatus::Pending => 2,
        NodeStatus::Pass => 3,
        NodeStatus::Skipped | NodeStatus::Filtered => 4,
    }
}

const fn mark(status: NodeStatus) -> char {
    match status {
        NodeStatus::Pending => '.',
        NodeStatus::Running => '>',
        NodeStatus::Pass => '+',
        NodeStatus::Fail
        | NodeStatus::TaskError
        | NodeStatus::InfraError
        | NodeStatus::Timeout
        | NodeStatus::Crash => '!',
        NodeStatus::Skipped | NodeStatus::Filtered => '-',
    }
}
