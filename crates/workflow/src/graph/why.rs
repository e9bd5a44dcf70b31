//! Explanations of a node's status, for operators.

use super::spec::{GraphEdge, NodeId};
use super::status::NodeStatus;

/// Number of nodes named before the rest is counted.
const NAMED: usize = 3;
/// Maximum length of a text.
const LONGEST: usize = 1_000;

/// `a, b, c and 997 more`.
pub(crate) fn list_nodes<'a>(ids: impl Iterator<Item = &'a NodeId>) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0usize);
    for id in ids {
        if count < NAMED {
            if count > 0 {
                text.push_str(", ");
            }
            text.push_str(id.as_str());
        }
        count += 1;
    }
    if count > NAMED {
        text.push_str(&format!(" and {} more", count - NAMED));
    }
    (text, count)
}

/// Why a node may run; `status` looks up its parents.
pub(crate) fn explain_run(parents: &[GraphEdge], status: impl Fn(&NodeId) -> NodeStatus) -> String {
    let with = |wanted: fn(NodeStatus) -> bool| {
        let status = &status;
        list_nodes(parents.iter().map(|edge| &edge.from).filter(move |id| wanted(status(id))))
    };
    let failed = with(|status| status.is_failure() || status == NodeStatus::Skipped);
    if failed.1 > 0 {
        return format!("continues although {} did not pass", parents_named(&failed));
    }
    match with(|status| status == NodeStatus::Pass) {
        (_, 0) => "has no parents".to_owned(),
        passed => format!("{} passed", parents_named(&passed)),
    }
}

fn parents_named((names, count): &(String, usize)) -> String {
    if *count == 1 { format!("parent {names}") } else { format!("parents {names}") }
}

/// Why a node is skipped: `parent b is FAIL`.
pub(crate) fn explain_skip(failed: &[(&NodeId, NodeStatus)]) -> String {
    let named: Vec<String> =
        failed.iter().take(NAMED).map(|(id, status)| format!("parent {id} is {status}")).collect();
    let more = failed.len().saturating_sub(NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

pub(crate) fn shorten_text(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}
