//! Leasing cost depends on the leased actions, not on the queue length; and no queue is starved.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{self, PostgresFixture, event, rows_read, worker};
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::Name;
use millstream_store::action_store::ActionStore;
use millstream_store::event_log::{AppendRequest, EventLog};
use millstream_store::execution_store::{CommitVerdict, ExecutionStore, LeaseGrant};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::task_board::TaskBoard;
use millstream_store::timer_store::TimerStore;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_workflow::lease_policy::LeasePolicy;

const EACH: usize = 1_000;

fn call(function: &str) -> ActionQueue {
    ActionQueue::call_for_all(&Name::parse(function).unwrap())
}

fn serving(slots: usize, queues: &[ActionQueue]) -> LeaseGrant {
    LeaseGrant { slots, ttl: Duration::from_secs(30), queues: queues.into() }
}

/// A thousand ready actions in each of these queues.
async fn filled(queues: &[ActionQueue]) -> PostgresFixture {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    for (n, queue) in queues.iter().enumerate() {
        let keys = fixture.start(EACH, &format!("q{n}")).await;
        let posts: Vec<_> = keys.iter().map(|key| event(key, "go")).collect();
        let mut commits = Vec::new();
        for (key, post) in keys.iter().zip(&posts) {
            let mut commit = support::act(key, post.event_id, &["a"], now);
            commit.actions[0].terms = LeasePolicy { queue: queue.clone(), ..LeasePolicy::engine_for_all() };
            commits.push(commit);
        }
        let posts: Vec<_> = posts.into_iter().map(AppendRequest::Event).collect();
        store.append(&posts, now).await.unwrap();
        let commits = fixture.placed(commits).await;
        for committed in store.commit_executions(&worker(), &commits, &serving(0, &[]), now).await.unwrap() {
            assert!(matches!(committed, CommitVerdict::Done { unleased: 1, .. }), "{committed:?}");
        }
    }
    fixture
}

#[tokio::test]
async fn leases_read_little_of_long_queues() {
    let queues = ["a", "b", "c", "d"].map(call);
    let fixture = filled(&queues).await;
    fixture.store.close().await;
    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    let now = store.ping().await.unwrap();
    assert_eq!(store.open_queues("call:").await.unwrap(), queues);
    assert!(store.open_queues("task:").await.unwrap().is_empty());
    assert!(store.next_due(&queues).await.unwrap().is_some());
    assert_eq!(store.lease_each(&[worker()], &serving(3, &queues[1..2]), now).await.unwrap().len(), 3);
    assert_eq!(store.lease_each(&[worker()], &serving(6, &queues), now).await.unwrap().len(), 6);
    assert!(store.lease_overdue(&worker(), &serving(5, &[]), now).await.unwrap().is_empty());
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 300, "a few leases from four queues of {EACH} read {read} index entries");
}

#[tokio::test]
async fn long_queue_does_not_block_short_one() {
    let fixture = filled(&[call("long")]).await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    let keys = fixture.start(1, "short").await;
    let post = event(&keys[0], "go");
    let mut commit = support::act(&keys[0], post.event_id, &["a", "b"], now);
    for action in &mut commit.actions {
        action.terms = LeasePolicy { queue: call("short"), ..LeasePolicy::engine_for_all() };
    }
    store.append(&[AppendRequest::Event(post)], now).await.unwrap();
    let commits = fixture.placed(vec![commit]).await;
    store.commit_executions(&worker(), &commits, &serving(0, &[]), now).await.unwrap();
    let both = serving(4, &[call("long"), call("short")]);
    let leased = store.lease_each(&[worker()], &both, now).await.unwrap();
    let of_short = leased.iter().filter(|action| action.lease.key.execution == keys[0]).count();
    assert_eq!((leased.len(), of_short), (4, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_share_queues_without_waiting() {
    let queues = ["a", "b"].map(call);
    let fixture = filled(&queues).await;
    let (store, all) = (&fixture.store, serving(50, &queues));
    let now = store.ping().await.unwrap();
    let take = || async {
        let (worker, mut taken) = (worker(), Vec::new());
        for _ in 0..100 {
            let leased = store.lease_each(std::slice::from_ref(&worker), &all, now).await.unwrap();
            taken.extend(leased.into_iter().map(|action| action.lease.key));
        }
        taken
    };
    let (one, two, three) = tokio::join!(take(), take(), take());
    let taken: Vec<_> = one.into_iter().chain(two).chain(three).collect();
    let distinct: BTreeSet<_> = taken.iter().collect();
    assert_eq!((taken.len(), distinct.len()), (2 * EACH, 2 * EACH));
    fixture.assert_no_deadlock().await;
}
