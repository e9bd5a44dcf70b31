//! Draws a graph as text: layer by layer, one line per node, the most relevant status first.

use super::layers::assign_layers;
use super::sketch::{NodeSketch, count_statuses, truncate_text};
use crate::graph::NodeStatus;

/// Nodes shown per layer.
const SHOWN: usize = 20;
/// Layers shown at either end.
const ENDS: usize = 30;
/// Parents that are named.
const NAMED: usize = 3;

pub fn draw_ascii(nodes: &[NodeSketch]) -> String {
    let drawn = assign_layers(nodes);
    let sketched =
        |places: &[usize]| -> Vec<&NodeSketch> { places.iter().filter_map(|at| nodes.get(*at)).collect() };
    let total = drawn.layers.len();
    let mut text = format!("{} nodes: {}\n", nodes.len(), count_statuses(nodes.iter()));
    for (number, places) in drawn.layers.iter().enumerate() {
        if number < ENDS || number + ENDS >= total {
            draw_layer(&mut text, number + 1, sketched(places));
        } else if number == ENDS {
            let hidden: Vec<usize> =
                drawn.layers.iter().skip(ENDS).take(total - 2 * ENDS).flatten().copied().collect();
            let count = total - 2 * ENDS;
            text.push_str(&format!(
                "… {count} more layers: {}\n",
                count_statuses(sketched(&hidden).into_iter())
            ));
        }
    }
    text
}

fn draw_layer(text: &mut String, number: usize, mut nodes: Vec<&NodeSketch>) {
    text.push_str(&format!("layer {number}\n"));
    if nodes.len() > SHOWN {
        // A stable sort keeps the layout order within a status.
        nodes.sort_by_key(|node| status_rank(node.status));
    }
    let (shown, hidden) = nodes.split_at(SHOWN.min(nodes.len()));
    let width = shown.iter().map(|node| node.id.chars().count()).max().unwrap_or(0);
    for node in shown {
        let line = format!(
            "  {} {:width$}  {:11}  {}  {}",
            status_mark(node.status),
            node.id,
            node.status.as_str(),
            parent_names(&node.parents),
            truncate_text(&node.label, 60),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if !hidden.is_empty() {
        text.push_str(&format!("  … {} more: {}\n", hidden.len(), count_statuses(hidden.iter().copied())));
    }
}

fn parent_names(parents: &[String]) -> String {
    if parents.is_empty() {
        return String::new();
    }
    let more = parents.len().saturating_sub(NAMED);
    let names = parents.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("<- {names} and {more} more") } else { format!("<- {names}") }
}

/// Sort key: the statuses that operators look for come first.
const fn status_rank(status: NodeStatus) -> u8 {
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

const fn status_mark(status: NodeStatus) -> char {
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
