//! Nodes that behave as their goal says, to see what the engine makes of it. For trying out and for tests.
//!
//! | goal | what happens |
//! |---|---|
//! | `return JSON` | passes with that result |
//! | `sleep MS` | passes after a while |
//! | `fail`, `task_error` | ends in that status |
//! | `unavailable until N`, `crash until N` | before attempt N it refuses, or the process exits |
//! | `hang` | never answers |
//! | `elsewhere` | answers for another node |
//! | `large BYTES` | passes with a result of that size |
//! | `insert ID`, `delete ID` | passes with an edit: a node after this one, or one gone |
//! | anything else | passes, saying what it was handed |
//!
//! `note PATH` before any of these appends a line to that file first: what was performed, and how often.

use std::io::Write as _;
use std::time::Duration;

use millstream_rpc::proto::node_edit::Kind;
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, Node, NodeEdit, NodeStatus, Parent};
use serde_json::{Value, json};
use tonic::Status;

use crate::perform::{edit, passed};

pub(crate) async fn perform(request: &ExecuteNodeRequest, goal: &str) -> Result<ExecuteNodeResponse, Status> {
    let goal = match goal.strip_prefix("note ").map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
        Some((path, rest)) => {
            note(path, request).map_err(|error| Status::internal(format!("{path}: {error}")))?;
            rest
        }
        None => goal,
    };
    let (what, rest) = goal.split_once(' ').unwrap_or((goal, ""));
    let before = |number: &str| number.parse().is_ok_and(|number: u32| request.attempt < number);
    Ok(match (what, rest) {
        ("return", json) => passed(&serde_json::from_str(json).unwrap_or(Value::Null)),
        ("sleep", millis) => {
            tokio::time::sleep(Duration::from_millis(millis.parse().unwrap_or(0))).await;
            passed(&json!({ "slept": millis }))
        }
        ("fail", _) => ended(NodeStatus::Fail, "the answer is no"),
        ("task_error", _) => ended(NodeStatus::TaskError, "it could not be done"),
        ("unavailable", until) if until.strip_prefix("until ").is_some_and(before) => {
            return Err(Status::unavailable("not now"));
        }
        ("crash", until) if until.strip_prefix("until ").is_some_and(before) => std::process::exit(7),
        ("hang", _) => std::future::pending().await,
        ("elsewhere", _) => ExecuteNodeResponse {
            workflow_id: request.workflow_id.clone(),
            node_id: "elsewhere".to_owned(),
            ..passed(&Value::Null)
        },
        ("large", bytes) => passed(&json!("x".repeat(bytes.parse().unwrap_or(0)))),
        ("insert", id) => {
            let parent = Parent { node: request.node_id.clone(), ..Default::default() };
            let child = Node { id: id.to_owned(), parents: vec![parent], ..Default::default() };
            ExecuteNodeResponse { edits: vec![edit(Kind::Insert, child)], ..passed(&Value::Null) }
        }
        ("delete", id) => {
            let gone = NodeEdit { kind: Kind::Delete.into(), node_id: id.to_owned(), ..Default::default() };
            ExecuteNodeResponse { edits: vec![gone], ..passed(&Value::Null) }
        }
        _ => passed(&handed(request)),
    })
}

fn ended(status: NodeStatus, error: &str) -> ExecuteNodeResponse {
    ExecuteNodeResponse { status: status.into(), error: error.to_owned(), ..Default::default() }
}

fn note(path: &str, request: &ExecuteNodeRequest) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{} {}\n", request.node_id, request.attempt).as_bytes())
}

fn handed(request: &ExecuteNodeRequest) -> Value {
    let upstream: Vec<&str> = request.upstream_nodes.iter().map(|node| node.id.as_str()).collect();
    let item = request.node.as_ref().map(|node| node.item_json.as_str()).unwrap_or_default();
    let item: Value = serde_json::from_str(item).unwrap_or(Value::Null);
    let failed =
        request.upstream_nodes.iter().filter(|node| node.status == i32::from(NodeStatus::Fail)).count();
    json!({ "attempt": request.attempt, "upstream": upstream, "item": item, "failed": failed })
}
