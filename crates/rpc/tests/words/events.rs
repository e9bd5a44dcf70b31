//! Events of watch streams.

use std::sync::Arc;

use millstream_model::id::{ExecutionId, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_rpc::proto::workflow_event::What;
use millstream_rpc::proto::{self, WorkflowStatus};
use millstream_rpc::write::{self, WorkflowEventHead};
use millstream_workflow::graph::{NodeId, NodeSpec, NodeSpecUpdate, NodeStatus};
use millstream_workflow::graph_machine::GraphTransitionNotice;

fn told(notice: &GraphTransitionNotice) -> What {
    let workflow = ExecutionId::parse("w").unwrap();
    let occasion =
        WorkflowEventHead { position: "8.0".into(), workflow: &workflow, at: Timestamp::from_millis(2_000) };
    let event = write::notice_event(occasion, Seq(4), notice);
    assert_eq!((event.position.as_str(), event.workflow_id.as_str(), event.seq), ("8.0", "w", 4));
    assert_eq!(event.at.unwrap().seconds, 2);
    event.what.unwrap()
}

fn node() -> NodeId {
    NodeId::parse("n").unwrap()
}

#[test]
fn every_notice_becomes_an_event() {
    let completed = GraphTransitionNotice::NodeCompleted {
        node: node(),
        status: NodeStatus::Crash,
        attempt: 3,
        why: None,
    };
    let expected = proto::NodeCompleted { node_id: "n".into(), status: 8, attempt: 3, why: String::new() };
    assert_eq!(told(&completed), What::NodeCompleted(expected));

    let expanded = proto::NodeExpanded { node_id: "n".into(), instances: 2, revision: 5 };
    assert_eq!(
        told(&GraphTransitionNotice::Expanded { node: node(), instances: 2, revision: 5 }),
        What::NodeExpanded(expanded)
    );

    let reason = Some("enough".to_owned());
    for (notice, status, said) in [
        (GraphTransitionNotice::Completed, WorkflowStatus::Passed, ""),
        (GraphTransitionNotice::Failed { reason: reason.clone() }, WorkflowStatus::Failed, "enough"),
        (GraphTransitionNotice::Cancelled { reason }, WorkflowStatus::Cancelled, "enough"),
    ] {
        let ended = proto::WorkflowEnded { status: status.into(), reason: said.into() };
        assert_eq!(told(&notice), What::Ended(ended));
    }
}

#[test]
fn edit_event_has_old_and_new() {
    let spec = |goal: &str| -> Arc<NodeSpec> {
        let text = format!(r#"{{"id": "n", "task": {{"goal": "{goal}"}}}}"#);
        Arc::new(serde_json::from_str(&text).unwrap())
    };
    let updated = vec![NodeSpecUpdate { was: spec("old"), is: spec("new") }];
    let notice = GraphTransitionNotice::Edited {
        revision: 2,
        inserted: vec![spec("in")],
        updated,
        deleted: vec![node()],
    };
    let What::Edited(edited) = told(&notice) else { panic!("it is an edit") };
    let goal = |node: &proto::Node| node.assigned_task.clone().unwrap().goal;
    assert_eq!(goal(&edited.inserted[0]), "in");
    let update = &edited.updated[0];
    assert_eq!(
        (goal(update.was.as_ref().unwrap()).as_str(), goal(update.is.as_ref().unwrap()).as_str()),
        ("old", "new")
    );
    assert_eq!(edited.deleted, ["n"]);
}

#[test]
fn dispatches_decode_from_feed() {
    let stored = r#"[{"node": "n", "attempt": 1, "executor": "e", "reason": "least loaded"}]"#;
    let dispatches = write::decode_dispatches(&RawJson::from_trusted_text(stored)).unwrap();
    let expected = proto::NodeDispatched {
        node_id: "n".into(),
        attempt: 1,
        executor: "e".into(),
        reason: "least loaded".into(),
    };
    assert_eq!(dispatches, [expected]);
    assert!(write::decode_dispatches(&RawJson::from_trusted_text("{}")).is_err());
}
