//! Graphs in a file: their feed survives, and their statements use their indexes.

use std::time::Duration;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::status::ExecutionPhase;
use millstream_store::event_log::AppendRequest;
use millstream_store::feed::Feed;
use millstream_store::graph_store::{GraphRows, GraphStore, GraphViews, NodeDispatch, NodeFilter, NodeWrite};
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::outbox::{Outbox, ParcelLimit};
use millstream_workflow::graph::NodeStatus;

use crate::store_fixture::{self, NOW, SqliteDesk, append, execution, name, raw};

fn start(key: &ExecutionKey, phase: ExecutionPhase) -> AppendRequest {
    let AppendRequest::Start(mut start) = store_fixture::start(key, "{}", phase) else {
        panic!("it is a start")
    };
    let node = NodeWrite {
        node: name("a"),
        status: NodeStatus::Running,
        attempt: 1,
        seq: Seq::FIRST,
        why: None,
        spec: Some(raw(r#"{"id":"a"}"#)),
        children: None,
        instance: None,
        result: None,
        error: None,
        started_at: None,
        ended_at: None,
    };
    start.graph = Some(Box::new(GraphRows {
        revision: 1,
        metadata: Some(raw("{}")),
        blob: Some([1, 2, 3].into()),
        nodes: vec![node],
        deleted: Vec::new(),
    }));
    AppendRequest::Start(start)
}

#[tokio::test]
async fn graph_feed_and_outbox_survive_reopen() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("g");
    append(&desk.store, &[start(&key, ExecutionPhase::Active)]).await;
    let dispatch = NodeDispatch {
        execution: key.clone(),
        node: name("a"),
        attempt: 1,
        executor: "e".to_owned(),
        reason: String::new(),
    };
    desk.store.record_dispatches(&[dispatch], 0, NOW).await.unwrap();
    assert_eq!(desk.store.spread_entries(&[name("sink")], 1, NOW).await.unwrap(), 1);

    let desk = desk.reopened().await;
    let graph = desk.store.find_graphs(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    assert_eq!(&graph.blob[..], [1, 2, 3]);
    let nodes = desk.store.list_nodes(&key, &NodeFilter::default(), None, 10).await.unwrap();
    assert_eq!(nodes[0].executor.as_deref(), Some("e"));
    assert_eq!(desk.store.read_feed(&key, 0, 10).await.unwrap().len(), 2);
    let due =
        desk.store.due_parcels(&name("sink"), ParcelLimit { executions: 9, entries: 9 }, NOW).await.unwrap();
    assert_eq!((due.len(), due[0].entries.len()), (1, 1), "one was spread");
    assert_eq!(desk.store.spread_entries(&[], 10, NOW).await.unwrap(), 1, "and one was not");
}

#[tokio::test]
async fn feed_position_is_never_reused() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("g");
    append(&desk.store, &[start(&key, ExecutionPhase::Completed)]).await;
    let first = desk.store.read_feed(&key, 0, 10).await.unwrap()[0].position;
    let later = NOW.plus(Duration::from_secs(1));
    assert_eq!(desk.store.purge_executions(RetentionCutoffs::uniform(later), 10).await.unwrap(), 1);
    let desk = desk.reopened().await;
    append(&desk.store, &[start(&key, ExecutionPhase::Completed)]).await;
    assert!(desk.store.read_feed(&key, 0, 10).await.unwrap()[0].position > first);
}

/// The rows of one execution are found by its key, however large the tables are.
#[tokio::test]
async fn graph_statements_use_an_index() {
    let desk = SqliteDesk::fresh().await;
    let shell = desk.shell();
    let statements = [
        "SELECT * FROM graph_feed WHERE tenant = 't' AND execution_id = 'x' AND position > 7 ORDER BY position",
        "SELECT * FROM graph_logs
         WHERE tenant = 't' AND execution_id = 'x' AND node = 'n' AND position > 7 ORDER BY position",
        "SELECT position FROM graph_logs WHERE tenant = 't' AND execution_id = 'x' AND node = 'n' AND attempt = 1
         ORDER BY position DESC LIMIT 1",
        "SELECT node FROM graph_nodes
         WHERE tenant = 't' AND execution_id = 'x' AND node > 'n.' AND node < 'n/' AND instance_of = 'n'",
        "SELECT action FROM actions
         WHERE tenant = 't' AND execution_id = 'x' AND seq = 2 AND action >= 'a' AND action <= 'a'",
        // An index is named where the planner, without statistics, would prefer the index of all open executions.
        "SELECT count(*) FROM executions INDEXED BY executions_graphs
         WHERE definition = 'millstream.graph' AND ended_at IS NULL",
    ];
    let columns = [
        "(tenant=? AND execution_id=? AND position>?)",
        "(tenant=? AND execution_id=? AND node=? AND position>?)",
        "(tenant=? AND execution_id=? AND node=?)",
        "(tenant=? AND execution_id=? AND node>? AND node<?)",
        "(tenant=? AND execution_id=? AND seq=? AND action>? AND action<?)",
        "executions_graphs",
    ];
    for (statement, columns) in statements.into_iter().zip(columns) {
        let mut explain = shell.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let plan: Vec<String> =
            explain.query_map((), |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
        let plan = plan.join("; ");
        assert!(plan.contains(columns), "{statement}: {plan}");
    }
}
