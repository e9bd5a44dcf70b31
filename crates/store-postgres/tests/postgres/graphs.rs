//! Work per node grows neither with the graph nor with the number of actions of a transition, and all writers
//! of a graph take locks in one order.
//!
//! The conformance suite checks the answers; these tests count the rows that are read and written for them.

use std::sync::Arc;

use crate::support::{self, PostgresFixture, event, grant, key, raw, rows_read, worker};
use millstream_model::id::{DefinitionRef, ExecutionKey, Name, Seq};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    ActionStore, AfterFailure, LeasedAction, SettleOutcome, SettleVerdict, Settlement,
};
use millstream_store::event_log::{AppendRequest, Appended, EventLog};
use millstream_store::execution_store::{
    ActionRelation, CommitVerdict, ExecutionCommit, ExecutionStore, SnapshotWrite,
};
use millstream_store::feed::Feed;
use millstream_store::graph_store::{
    ExecutorLogText, GraphRows, GraphStore, GraphViews, NodeDispatch, NodeWrite,
};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::outbox::{DeliveredParcel, Outbox, ParcelBackoff, ParcelLimit, SinkPosition};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_workflow::graph::{NodeId, NodeStatus};
use sqlx::{Connection, PgConnection};

fn name(n: usize) -> NodeId {
    NodeId::parse(format!("n{n:05}")).unwrap()
}

fn node(n: usize, parents: &[usize], status: NodeStatus) -> NodeWrite {
    let list: Vec<String> = parents.iter().map(|parent| format!("\"{}\"", name(*parent))).collect();
    NodeWrite {
        node: name(n),
        status,
        attempt: 1,
        seq: Seq::FIRST,
        why: None,
        spec: Some(raw(&format!(r#"{{"id":"{}","parents":[{}]}}"#, name(n), list.join(",")))),
        children: None,
        instance: None,
        result: None,
        error: None,
        started_at: None,
        ended_at: None,
    }
}

fn rows(nodes: Vec<NodeWrite>) -> GraphRows {
    GraphRows { revision: 1, metadata: None, blob: None, nodes, deleted: Vec::new() }
}

/// A graph whose nodes all run, the second of them behind the first and the third.
async fn start_graph(fixture: &PostgresFixture, key: &ExecutionKey, nodes: usize) {
    let now = fixture.store.ping().await.unwrap();
    let parents = |n| if n == 1 { &[0, 2][..] } else { &[] };
    let nodes = (0..nodes).map(|n| node(n, parents(n), NodeStatus::Running)).collect();
    let mut start = support::start(key, now);
    start.definition = DefinitionRef { name: Name::graph(), version: 1 };
    start.graph = Some(Box::new(GraphRows {
        metadata: Some(raw("{}")),
        blob: Some(Arc::from([0; 10])),
        ..rows(nodes)
    }));
    let appended = fixture.store.append(&[AppendRequest::Start(Box::new(start))], now).await.unwrap();
    assert!(matches!(appended[0], Appended::Accepted { .. }), "{appended:?}");
}

/// The second transition of an execution, with these changes to its graph.
async fn change(fixture: &PostgresFixture, key: &ExecutionKey, nodes: Vec<NodeWrite>) -> ExecutionCommit {
    let now = fixture.store.ping().await.unwrap();
    let post = event(key, "go");
    let mut commit = support::act(key, post.event_id, &[], now);
    fixture.store.append(&[AppendRequest::Event(post)], now).await.unwrap();
    commit.snapshot = SnapshotWrite::Skip;
    commit.graph = Some(Box::new(rows(nodes)));
    fixture.placed(vec![commit]).await.remove(0)
}

fn dispatch(key: &ExecutionKey, n: usize) -> NodeDispatch {
    let (executor, reason) = ("e".to_owned(), String::new());
    NodeDispatch { execution: key.clone(), node: name(n), attempt: 1, executor, reason }
}

/// Turns autovacuum off, so that only the store reads the tables.
async fn undisturbed(fixture: &PostgresFixture) {
    for table in
        ["actions", "events", "graph_nodes", "graph_feed", "outbox", "graphs", "transitions", "mailbox"]
    {
        execute(fixture, &format!("ALTER TABLE {table} SET (autovacuum_enabled = false)")).await;
    }
}

async fn execute(fixture: &PostgresFixture, sql: &str) {
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// How many index entries and rows `work` reads on a store of its own, whose plans have no statistics.
async fn reads<F: Future<Output = ()>>(
    fixture: &PostgresFixture,
    work: impl FnOnce(Arc<PostgresStore>) -> F,
) -> i64 {
    let before = rows_read(fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    work(Arc::clone(&store)).await;
    store.close().await;
    rows_read(fixture).await - before
}

/// An event with `count` independent actions, all of them leased.
async fn crowd(fixture: &PostgresFixture, id: &str, count: usize) -> Vec<LeasedAction> {
    let keys = fixture.start(1, id).await;
    let now = fixture.store.ping().await.unwrap();
    let post = event(&keys[0], "go");
    let names: Vec<String> = (0..count).map(|n| format!("a{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut commit = support::act(&keys[0], post.event_id, &names, now);
    commit.actions.iter_mut().for_each(|action| action.company = ActionRelation::Independent);
    fixture.store.append(&[AppendRequest::Event(post)], now).await.unwrap();
    let batch = fixture.placed(vec![commit]).await;
    let mut committed = fixture.store.commit_executions(&worker(), &batch, &grant(count), now).await.unwrap();
    let CommitVerdict::Done { leased, .. } = committed.remove(0) else { panic!("not committed") };
    leased
}

/// One of each kind of outcome.
fn outcomes(leased: &[LeasedAction], now: Timestamp) -> Vec<Settlement> {
    let emit = |action: &LeasedAction| Box::new(event(&action.lease.key.execution, "told"));
    let error = || raw(r#"{"class":"status"}"#);
    let outcome = |(at, action): (usize, &LeasedAction)| {
        let outcome = match at % 5 {
            0 => SettleOutcome::Succeeded { result: raw("1"), emit: Some(emit(action)) },
            1 => SettleOutcome::Failed { error: error(), then: AfterFailure::Emit(emit(action)) },
            2 => SettleOutcome::Retry { error: error(), at: now },
            3 => SettleOutcome::Postponed { at: now, error: None },
            _ => SettleOutcome::Awaiting { until: None },
        };
        Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome }
    };
    leased.iter().enumerate().map(outcome).collect()
}

#[tokio::test]
async fn settling_independent_action_reads_no_sibling() {
    let fixture = PostgresFixture::fresh().await;
    undisturbed(&fixture).await;
    let now = fixture.store.ping().await.unwrap();
    let few = outcomes(&crowd(&fixture, "few", 10).await, now);
    let many = outcomes(&crowd(&fixture, "many", 2_000).await[1_000..1_010], now);
    fixture.store.close().await;
    let mut read = Vec::new();
    for settlements in [few, many] {
        read.push(
            reads(&fixture, |store| async move {
                // Of the duplicates only the awaited one is still held.
                for (batch, held) in [(&settlements[..5], 5), (&settlements[..], 6)] {
                    let settled = store.settle_actions(&worker(), batch, &grant(0), now).await.unwrap();
                    let fresh = settled.verdicts.iter().filter(|one| **one != SettleVerdict::Stale).count();
                    assert_eq!(fresh, held);
                }
            })
            .await,
        );
    }
    assert!(read[1] < 300 && read[1] <= read[0] * 2, "of 10: {}, of 2,000: {}", read[0], read[1]);
}

#[tokio::test]
async fn node_work_reads_node_and_neighbours() {
    let fixture = PostgresFixture::fresh().await;
    undisturbed(&fixture).await;
    let key = key("large");
    start_graph(&fixture, &key, 5_000).await;
    let ended = NodeWrite { spec: None, result: Some(raw("1")), ..node(7, &[], NodeStatus::Pass) };
    let commit = change(&fixture, &key, vec![ended]).await;
    let now = fixture.store.ping().await.unwrap();
    fixture.store.close().await;
    let of_dispatch = reads(&fixture, |store| async move {
        let contexts = store.record_dispatches(&[dispatch(&key, 1)], 100, now).await.unwrap();
        assert_eq!(contexts[0].as_ref().map(|context| context.upstream.len()), Some(2));
    })
    .await;
    assert!(of_dispatch < 40, "a dispatch read {of_dispatch} entries");
    let of_commit = reads(&fixture, |store| async move {
        let committed = store.commit_executions(&worker(), &[commit], &grant(0), now).await.unwrap();
        assert!(matches!(committed[0], CommitVerdict::Done { .. }), "{committed:?}");
    })
    .await;
    assert!(of_commit < 40, "a commit read {of_commit} entries");
}

#[tokio::test]
async fn feed_is_read_by_execution_and_unmarked() {
    let fixture = PostgresFixture::fresh().await;
    undisturbed(&fixture).await;
    let keys: Vec<_> = (0..300).map(|n| key(&format!("g-{n}"))).collect();
    for key in &keys {
        start_graph(&fixture, key, 1).await;
    }
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    assert_eq!(store.spread_entries(&[], 298, now).await.unwrap(), 298);
    store.close().await;
    let read = reads(&fixture, |store| async move {
        assert_eq!(store.read_feed(&keys[200], 0, 10).await.unwrap().len(), 1);
    })
    .await;
    assert!(read < 10, "one execution's entries cost {read}");
    // Spread entries leave the index when the table is next vacuumed.
    execute(&fixture, "VACUUM graph_feed").await;
    let read = reads(&fixture, |store| async move {
        assert_eq!(store.spread_entries(&[], 10, now).await.unwrap(), 2);
    })
    .await;
    assert!(read < 30, "unspread entries cost {read}");
}

#[tokio::test]
async fn due_entries_are_found_among_postponed() {
    let fixture = PostgresFixture::fresh().await;
    undisturbed(&fixture).await;
    let keys: Vec<_> = (0..300).map(|n| key(&format!("g-{n}"))).collect();
    for key in &keys {
        start_graph(&fixture, key, 1).await;
    }
    let (store, sink, other) = (&fixture.store, name(1), name(2));
    let now = store.ping().await.unwrap();
    assert_eq!(store.spread_entries(&[sink.clone(), other], 1_000, now).await.unwrap(), 300);
    let later = now.plus(std::time::Duration::from_secs(60));
    let put_off = |key: &ExecutionKey| ParcelBackoff { execution: key.clone(), until: later, attempts: 1 };
    store.postpone_parcels(&sink, &keys[..297].iter().map(put_off).collect::<Vec<_>>()).await.unwrap();
    store.close().await;
    execute(&fixture, "VACUUM outbox").await;
    let read = reads(&fixture, |store| async move {
        let limit = ParcelLimit { executions: 10, entries: 10 };
        assert_eq!(store.due_parcels(&sink, limit, now).await.unwrap().len(), 3);
    })
    .await;
    assert!(read < 30, "due entries cost {read}");
}

/// A transaction that waits for a row which another one is changing sees the change, and still applies its
/// own.
#[tokio::test]
async fn parcel_is_handed_over_during_spread() {
    let fixture = PostgresFixture::fresh().await;
    start_graph(&fixture, &key("g"), 1).await;
    let (store, sink) = (Arc::clone(&fixture.store), name(1));
    let now = store.ping().await.unwrap();
    store.spread_entries(std::slice::from_ref(&sink), 9, now).await.unwrap();
    let limit = ParcelLimit { executions: 9, entries: 9 };
    let parcel = store.due_parcels(&sink, limit, now).await.unwrap().remove(0);
    let mut noting = PgConnection::connect(&fixture.database.url).await.unwrap();
    sqlx::query("BEGIN").execute(&mut noting).await.unwrap();
    sqlx::query("UPDATE outbox SET upto = upto + 1, waiting = 2").execute(&mut noting).await.unwrap();
    let to = SinkPosition { position: parcel.entries[0].position, part: 0 };
    let over = DeliveredParcel { execution: key("g"), from: parcel.heard, to, entries: 1, at: now };
    let handing = {
        let (store, sink) = (Arc::clone(&store), sink.clone());
        tokio::spawn(async move { store.advance_sinks(&sink, &[over], now).await })
    };
    millstream_testkit::eventually(std::time::Duration::from_secs(20), || async {
        const WAITING: &str =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
        let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
        let waiting: i64 = sqlx::query_scalar(WAITING).fetch_one(&mut connection).await.unwrap();
        if waiting > 0 { Ok(()) } else { Err("no session waits") }
    })
    .await;
    sqlx::query("COMMIT").execute(&mut noting).await.unwrap();
    handing.await.unwrap().unwrap();
    let parcel = store.due_parcels(&sink, limit, now).await.unwrap().remove(0);
    assert_eq!((parcel.heard, parcel.upto), (to, to.position + 1));
}

/// A node is written when it runs, when it is dispatched and when it has ended.
#[tokio::test]
async fn node_updates_touch_no_index() {
    let fixture = PostgresFixture::fresh().await;
    undisturbed(&fixture).await;
    let key = key("hot");
    start_graph(&fixture, &key, 200).await;
    let now = fixture.store.ping().await.unwrap();
    let batch: Vec<_> = (0..200).map(|n| dispatch(&key, n)).collect();
    assert!(fixture.store.record_dispatches(&batch, 0, now).await.unwrap().iter().all(Option::is_some));
    // Dead row versions free their space now, and not at a moment that autovacuum chooses.
    execute(&fixture, "VACUUM graph_nodes").await;
    let ended = |n| NodeWrite { spec: None, result: Some(raw("1")), ..node(n, &[], NodeStatus::Pass) };
    let commit = change(&fixture, &key, (0..200).map(ended).collect()).await;
    fixture.store.commit_executions(&worker(), &[commit], &grant(0), now).await.unwrap();
    fixture.store.close().await;
    let (all, within) = support::counted_updates(&fixture.database.url, "graph_nodes", 400).await;
    assert_eq!(all, 400);
    assert!(within > 300, "{within} of {all} stayed within their page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn graph_writers_do_not_deadlock() {
    let fixture = PostgresFixture::fresh().await;
    let keys: Vec<_> = (0..6).map(|n| key(&format!("g-{n}"))).collect();
    let mut commits = Vec::new();
    for key in &keys {
        start_graph(&fixture, key, 30).await;
        let again = |n| NodeWrite { spec: None, ..node(n, &[], NodeStatus::Running) };
        commits.push(change(&fixture, key, (0..30).rev().map(again).collect()).await);
    }
    let now = fixture.store.ping().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for round in 0..8 {
        let (mut batch, mut logs) = (Vec::new(), Vec::new());
        for n in 0..60 {
            let (key, n) = (&keys[(n * 5 + round) % 6], (n * 7 + round) % 30);
            batch.push(dispatch(key, n));
            logs.push(ExecutorLogText {
                execution: key.clone(),
                node: name(n),
                attempt: 1,
                text: "line".to_owned(),
            });
        }
        let (store, other) = (Arc::clone(&fixture.store), Arc::clone(&fixture.store));
        tasks.spawn(
            async move { assert_eq!(store.record_dispatches(&batch, 10, now).await.unwrap().len(), 60) },
        );
        tasks.spawn(async move { other.append_logs(&logs, now).await.unwrap() });
    }
    commits.reverse();
    for batch in commits.chunks(3).map(<[ExecutionCommit]>::to_vec) {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            for committed in store.commit_executions(&worker(), &batch, &grant(0), now).await.unwrap() {
                assert!(matches!(committed, CommitVerdict::Done { .. }), "{committed:?}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let kept: usize = {
        let mut kept = 0;
        for key in &keys {
            for n in 0..30 {
                kept += fixture.store.read_logs(key, &name(n), 0, 100).await.unwrap().len();
            }
        }
        kept
    };
    assert_eq!(kept, 8 * 60);
    fixture.assert_no_deadlock().await;
}
