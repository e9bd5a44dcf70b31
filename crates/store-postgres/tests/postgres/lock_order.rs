//! Lock order: thousands of batches with crossed keys, and not one deadlock.
//!
//! Deadlocks are retried inside the store, so it is not enough that none surfaces: PostgreSQL's own count of
//! them must stay at zero.

use std::sync::Arc;

use crate::support::{self, PostgresFixture, event, grant, keyed, raw, worker};
use futures::stream::{self, StreamExt};
use millstream_model::status::EventStatus;
use millstream_store::action_store::{ActionStore, SettleOutcome, Settlement};
use millstream_store::event_log::{AppendRequest, Appended, EventLog};
use millstream_store::execution_store::{CommitVerdict, ExecutionStore};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::views::EventViews;

const AT_ONCE: usize = 6;
const SETTLE_ROUNDS: usize = 5_000;
const KEY_ROUNDS: usize = 3_000;
const COMMIT_ROUNDS: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_settlements_complete_their_event() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    for chunk in 0..SETTLE_ROUNDS / 500 {
        let keys = fixture.start(500, &format!("settle{chunk}")).await;
        let (mut commits, mut events, mut posts) = (Vec::new(), Vec::new(), Vec::new());
        for key in &keys {
            let posted = event(key, "go");
            events.push((key.tenant.clone(), posted.event_id));
            commits.push(support::act(key, posted.event_id, &["a", "b"], now));
            posts.push(AppendRequest::Event(posted));
        }
        store.append(&posts, now).await.unwrap();
        let commits = fixture.placed(commits).await;
        let committed = store.commit_executions(&worker(), &commits, &grant(usize::MAX), now).await.unwrap();
        let pairs = committed.into_iter().map(|committed| match committed {
            CommitVerdict::Done { leased, .. } => leased,
            other @ (CommitVerdict::Conflict | CommitVerdict::Missing) => panic!("not committed: {other:?}"),
        });
        stream::iter(pairs)
            .for_each_concurrent(AT_ONCE, |leased| async move {
                let settle = |n: usize| {
                    let batch = [Settlement {
                        lease: leased[n].lease.clone(),
                        event_id: leased[n].event_id,
                        outcome: SettleOutcome::Succeeded { result: raw("1"), emit: None },
                    }];
                    async move { store.settle_actions(&worker(), &batch, &grant(0), now).await.unwrap() }
                };
                tokio::join!(settle(0), settle(1));
            })
            .await;
        for view in store.find_events(&events).await.unwrap() {
            assert_eq!(view.unwrap().status, EventStatus::Completed, "chunk {chunk}");
        }
    }
    fixture.assert_no_deadlock().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_appends_accept_each_key_once() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let keys = Arc::new(fixture.start(8, "crossed").await);
    let now = store.ping().await.unwrap();
    stream::iter(0..KEY_ROUNDS)
        .for_each_concurrent(AT_ONCE, |round| {
            let keys = keys.clone();
            async move {
                let pick = |n: usize| &keys[(round + n) % keys.len()];
                let one = |n: usize| AppendRequest::Event(keyed(pick(n), &format!("key-{round}-{n}")));
                let (forth, back): (Vec<_>, Vec<_>) =
                    ((0..4).map(one).collect(), (0..4).rev().map(one).collect());
                let (forth, back) = tokio::join!(store.append(&forth, now), store.append(&back, now));
                let (forth, mut back) = (forth.unwrap(), back.unwrap());
                back.reverse();
                for pair in forth.iter().zip(&back) {
                    assert!(
                        matches!(
                            pair,
                            (Appended::Accepted { .. }, Appended::Repeat { .. })
                                | (Appended::Repeat { .. }, Appended::Accepted { .. })
                        ),
                        "round {round}: {pair:?}"
                    );
                }
            }
        })
        .await;
    fixture.assert_no_deadlock().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_commits_win_once_each() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    for chunk in 0..COMMIT_ROUNDS / 500 {
        let keys = Arc::new(fixture.start(502, &format!("commit{chunk}")).await);
        // Neighbouring rounds share two of three executions, and each round meets itself in reverse.
        stream::iter(0..500)
            .for_each_concurrent(AT_ONCE, |round| {
                let (keys, fixture) = (keys.clone(), &fixture);
                async move {
                    let mut batch = Vec::new();
                    for key in &keys[round..round + 3] {
                        let posted = event(key, "go");
                        store.append(&[AppendRequest::Event(posted.clone())], now).await.unwrap();
                        batch.push(support::act(key, posted.event_id, &["a"], now));
                    }
                    let batch = fixture.placed(batch).await;
                    let mut back = batch.clone();
                    back.reverse();
                    let (worker, grant) = (worker(), grant(3));
                    let (forth, back) = tokio::join!(
                        store.commit_executions(&worker, &batch, &grant, now),
                        store.commit_executions(&worker, &back, &grant, now)
                    );
                    let won = |committed: &[CommitVerdict]| {
                        committed.iter().filter(|one| matches!(one, CommitVerdict::Done { .. })).count()
                    };
                    assert!(won(&forth.unwrap()) + won(&back.unwrap()) <= 3, "round {round}");
                }
            })
            .await;
        for key in keys.iter() {
            assert_eq!(fixture.seq(key).await, 2, "{key} was not decided exactly once");
        }
    }
    fixture.assert_no_deadlock().await;
}

#[tokio::test]
async fn acceptance_numbers_follow_batch_order() {
    let fixture = PostgresFixture::fresh().await;
    let keys = fixture.start(50, "order").await;
    let now = fixture.store.ping().await.unwrap();
    for _ in 0..20 {
        let mut batch: Vec<_> = (0..400).map(|n| event(&keys[(n * 7) % 50], "go")).collect();
        batch.sort_by_key(|event| std::cmp::Reverse(event.event_id));
        let batch: Vec<_> = batch.into_iter().map(AppendRequest::Event).collect();
        let numbers: Vec<_> = fixture.store.append(&batch, now).await.unwrap();
        let numbers: Vec<_> = numbers
            .into_iter()
            .map(|appended| match appended {
                Appended::Accepted { accept_no } => accept_no,
                other @ (Appended::Repeat { .. }
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. }
                | Appended::Mismatch
                | Appended::NoExecution) => panic!("{other:?}"),
            })
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
}
