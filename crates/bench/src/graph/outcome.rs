//! Verification after the clock has stopped: every node of a graph has passed, and is recorded once.
//!
//! It asks over HTTP, so that it works for every target. A graph's log has its start, its begin and one
//! transition per node outcome, so its `seq` gives the number of recorded outcomes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::shape::GraphShape;
use crate::error::{BenchError, BenchResult};
use crate::target::EngineUnderTest;

const PAGE: usize = 500;
/// Transitions of a graph before the first outcome of a node.
const BEFORE_OUTCOMES: usize = 2;

#[derive(Debug, Deserialize)]
struct BenchNodePage {
    items: Vec<BenchNode>,
    next_cursor: Option<String>,
}

/// A node as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct BenchNode {
    node: String,
    status: String,
    attempt: u32,
    executor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct BenchGraphExecution {
    seq: usize,
    status: String,
}

/// Fails unless the graph is complete after `executor` has performed each of its nodes.
pub(crate) async fn verify_graph(
    subject: &mut EngineUnderTest,
    graph: &str,
    (shape, nodes): (GraphShape, usize),
    executor: &str,
) -> BenchResult<()> {
    let wrong = |text: String| BenchError::Wrong(format!("the graph {graph} of {nodes} nodes: {text}"));
    let unreadable = |error: serde_json::Error| wrong(format!("its record cannot be read: {error}"));
    let body = subject.front_connection().get(&format!("/v1/executions/{graph}")).await?;
    judge_end(&serde_json::from_slice(&body).map_err(unreadable)?, nodes).map_err(wrong)?;
    let (mut found, mut cursor) = (Vec::with_capacity(nodes), String::new());
    loop {
        let path = format!("/v1/graphs/{graph}/nodes?limit={PAGE}{cursor}");
        let body = subject.front_connection().get(&path).await?;
        let page: BenchNodePage = serde_json::from_slice(&body).map_err(unreadable)?;
        found.extend(page.items);
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    judge_nodes(shape.node_ids(nodes), &found, executor).map_err(wrong)
}

fn judge_end(execution: &BenchGraphExecution, nodes: usize) -> std::result::Result<(), String> {
    let BenchGraphExecution { seq, status } = execution;
    if status != "completed" {
        return Err(format!("it has not passed, it is {status}"));
    }
    match seq.checked_sub(BEFORE_OUTCOMES) {
        Some(outcomes) if outcomes == nodes => Ok(()),
        Some(_) | None => Err(format!("it is at seq {seq}, not {}", nodes + BEFORE_OUTCOMES)),
    }
}

fn judge_nodes(
    wanted: impl Iterator<Item = String>,
    found: &[BenchNode],
    executor: &str,
) -> std::result::Result<(), String> {
    let mut wrong = Vec::new();
    let mut by_id: BTreeMap<&str, &BenchNode> = BTreeMap::new();
    for node in found {
        if by_id.insert(&node.node, node).is_some() {
            wrong.push(format!("node {} is listed twice", node.node));
        }
    }
    for id in wanted {
        match by_id.remove(&*id) {
            None => wrong.push(format!("node {id} is missing")),
            Some(node) if node.status != "PASS" => wrong.push(format!("node {id} is {}", node.status)),
            Some(node) if node.attempt != 1 => {
                wrong.push(format!("node {id} took {} attempts", node.attempt));
            }
            Some(node) if node.executor.as_deref() != Some(executor) => {
                wrong.push(format!("node {id} was performed by {:?}, not by {executor}", node.executor));
            }
            Some(_) => {}
        }
    }
    wrong.extend(by_id.keys().map(|id| format!("node {id} was not asked for")));
    if wrong.is_empty() {
        return Ok(());
    }
    let (count, some) = (wrong.len(), wrong[..wrong.len().min(3)].join("; "));
    Err(format!("{count} deviations: {some}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_node(id: &str) -> BenchNode {
        BenchNode {
            node: id.to_owned(),
            status: "PASS".to_owned(),
            attempt: 1,
            executor: Some("bench-1".to_owned()),
        }
    }

    #[track_caller]
    fn deviations_of(found: &[BenchNode]) -> String {
        let wanted = ["a", "b", "c"].map(str::to_owned).into_iter();
        judge_nodes(wanted, found, "bench-1").err().unwrap_or_default()
    }

    #[test]
    fn verify_requires_single_node_attempt() {
        let good = ["a", "b", "c"].map(sample_node).to_vec();
        assert_eq!(deviations_of(&good), "");
        let with = |at: usize, other: BenchNode| {
            let mut found = good.clone();
            found[at] = other;
            deviations_of(&found)
        };
        assert!(deviations_of(&good[..2]).contains("node c is missing"));
        assert!(with(1, sample_node("a")).contains("node a is listed twice"));
        assert!(
            with(1, BenchNode { status: "RUNNING".to_owned(), ..sample_node("b") })
                .contains("node b is RUNNING")
        );
        assert!(with(2, BenchNode { attempt: 2, ..sample_node("c") }).contains("node c took 2 attempts"));
        assert!(with(0, BenchNode { executor: None, ..sample_node("a") }).contains("performed by None"));
        assert!(
            deviations_of(&[good.clone(), vec![sample_node("d")]].concat())
                .contains("node d was not asked for")
        );
    }

    #[test]
    fn verify_requires_outcome_per_node() {
        let end = |status: &str, seq| judge_end(&BenchGraphExecution { status: status.to_owned(), seq }, 10);
        assert_eq!(end("completed", 12), Ok(()));
        for (status, seq) in
            [("failed", 12), ("active", 12), ("completed", 11), ("completed", 13), ("completed", 1)]
        {
            assert!(end(status, seq).is_err(), "{status} at {seq}");
        }
    }
}
