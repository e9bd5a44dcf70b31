//! Validation of executors' answers.

use millstream_model::id::ExecutionId;
use millstream_rpc::proto::{self, ExecuteNodeResponse};
use millstream_rpc::read::{self, InvalidNodeAnswer, MAX_ERROR_CHARS, NodeAnswer, NodeQuestion};
use millstream_workflow::graph::limits::{MAX_EDITS, MAX_RESULT_BYTES};
use millstream_workflow::graph::{NodeEdit, NodeId, NodeStatus};
use proptest::prelude::*;
use prost::Message as _;

fn heard(given: ExecuteNodeResponse) -> Result<NodeAnswer, InvalidNodeAnswer> {
    let (workflow, node) = (ExecutionId::parse("w").unwrap(), NodeId::parse("n").unwrap());
    read::read_response(given, NodeQuestion { workflow: &workflow, node: &node, attempt: 2, executor: "e" })
}

fn passed() -> ExecuteNodeResponse {
    ExecuteNodeResponse {
        workflow_id: "w".into(),
        node_id: "n".into(),
        status: proto::NodeStatus::Pass.into(),
        ..Default::default()
    }
}

fn garbage(given: ExecuteNodeResponse) -> String {
    heard(given).unwrap_err().0
}

#[test]
fn executor_answer_is_decoded() {
    let delete = proto::NodeEdit { kind: 3, node_id: "x".into(), node: None };
    let given = ExecuteNodeResponse {
        results_json: r#"{"n": 9007199254740993}"#.into(),
        edits: vec![delete],
        logs: "line".into(),
        ..passed()
    };
    let NodeAnswer::Now { answer, logs } = heard(given).unwrap() else { panic!("it is an answer") };
    assert_eq!((answer.status, answer.attempt, logs.as_str()), (NodeStatus::Pass, 2, "line"));
    assert_eq!(answer.result.unwrap().as_str(), r#"{"n": 9007199254740993}"#);
    assert_eq!(answer.edits, [NodeEdit::Delete(NodeId::parse("x").unwrap())]);
    assert_eq!((answer.error, answer.executor.as_deref()), (None, Some("e")));
}

#[test]
fn only_outcomes_are_answer_statuses() {
    for number in -1..12 {
        let status = millstream_rpc::status::status_in(number);
        let fits = status.is_some_and(|status| status == NodeStatus::Pass || status.is_failure());
        let said = heard(ExecuteNodeResponse { status: number, ..passed() });
        assert_eq!(said.is_ok(), fits, "{number}: {said:?}");
    }
    assert_eq!(
        garbage(ExecuteNodeResponse { status: 1, ..passed() }),
        "status: PENDING is not the outcome of an attempt"
    );
    assert_eq!(garbage(ExecuteNodeResponse { status: 77, ..passed() }), "status: 77 is not a status");
}

#[test]
fn answer_with_foreign_ids_is_invalid() {
    let said = garbage(ExecuteNodeResponse { node_id: "other".into(), ..passed() });
    assert_eq!(said, "it has the ids of node \"other\" of the workflow \"w\"");
    garbage(ExecuteNodeResponse { workflow_id: String::new(), ..passed() });
    garbage(ExecuteNodeResponse::default());
}

#[test]
fn node_result_json_is_bounded() {
    let with = |results_json: String| heard(ExecuteNodeResponse { results_json, ..passed() });
    assert!(with(format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES - 2))).is_ok());
    let said = with(format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES))).unwrap_err();
    assert!(said.0.starts_with("results_json: is 1048578 bytes long"), "{said}");
    for bad in ["{", "nul", "1 2", " "] {
        assert!(with(bad.into()).is_err(), "{bad:?}");
    }
    assert!(with("[".repeat(100_000)).is_err());
}

#[test]
fn invalid_edits_make_answer_invalid() {
    let said = garbage(ExecuteNodeResponse { edits: vec![proto::NodeEdit::default()], ..passed() });
    assert_eq!(said, "edits[0].kind: must be INSERT, UPDATE or DELETE");
    let delete = proto::NodeEdit { kind: 3, node_id: "x".into(), node: None };
    let said = garbage(ExecuteNodeResponse { edits: vec![delete; MAX_EDITS + 1], ..passed() });
    assert_eq!(said, "edits: has 1001 items, at most 1000 are allowed");
}

#[test]
fn long_executor_error_is_truncated() {
    let given = ExecuteNodeResponse { status: 5, error: "é".repeat(MAX_ERROR_CHARS + 1), ..passed() };
    let NodeAnswer::Now { answer, .. } = heard(given).unwrap() else { panic!("it is an answer") };
    assert_eq!(answer.error.unwrap().chars().count(), MAX_ERROR_CHARS);
}

#[test]
fn accepted_answer_carries_no_outcome() {
    let accepted = || ExecuteNodeResponse { accepted: true, status: 0, ..passed() };
    assert_eq!(heard(accepted()), Ok(NodeAnswer::Later { logs: String::new() }));
    assert!(heard(ExecuteNodeResponse { status: 3, ..accepted() }).is_err());
    assert!(heard(ExecuteNodeResponse { results_json: "1".into(), ..accepted() }).is_err());
    assert!(heard(ExecuteNodeResponse { node_id: "other".into(), ..accepted() }).is_err());
}

#[test]
fn later_result_follows_same_rules() {
    let (workflow, node) = (ExecutionId::parse("w").unwrap(), NodeId::parse("n").unwrap());
    let asked = NodeQuestion { workflow: &workflow, node: &node, attempt: 1, executor: "e" };
    let good = proto::NodeResult { status: 4, error: "no".into(), logs: "l".into(), ..Default::default() };
    let (answer, logs) = read::read_result(good, asked).unwrap();
    assert_eq!((answer.status, answer.error.as_deref(), logs.as_str()), (NodeStatus::Fail, Some("no"), "l"));
    let problems =
        read::read_result(proto::NodeResult { status: 2, ..Default::default() }, asked).unwrap_err();
    assert_eq!(problems.to_string(), "status: RUNNING is not the outcome of an attempt");
}

proptest! {
    #[test]
    fn random_answer_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(given) = ExecuteNodeResponse::decode(bytes.as_slice()) {
            let _ = heard(ExecuteNodeResponse { workflow_id: "w".into(), node_id: "n".into(), ..given });
        }
    }
}
