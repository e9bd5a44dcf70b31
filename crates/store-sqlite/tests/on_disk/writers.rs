//! One writer, many callers.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::AcceptNo;
use millstream_model::status::ExecutionPhase;
use millstream_store::StoreError;
use millstream_store::event_log::{AppendRequest, Appended, EventLog, EventSubmission};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::views::{EventFilter, EventViews};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::TransactionBehavior;

use crate::store_fixture::{NOW, SqliteDesk, append, event, execution, load, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_callers_never_find_file_busy() {
    let desk = SqliteDesk::fresh().await;
    let keys: Vec<_> = (0..16).map(|n| execution(&format!("o-{n}"))).collect();
    for key in &keys {
        append(&desk.store, &[start(key, "{}", ExecutionPhase::Active)]).await;
    }
    let tasks: Vec<_> = keys
        .iter()
        .map(|key| {
            let (store, key) = (Arc::clone(&desk.store), key.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    append(&store, &[AppendRequest::Event(event(&key, "{}"))]).await;
                    load(&store, std::slice::from_ref(&key)).await;
                    store.ping().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(desk.store.count_backlog().await.unwrap().undecided, 16 * 20);
}

/// A dropped call has either happened or not; the connection is clean in both cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_call_leaves_no_transaction() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;

    let mut cut_short = 0;
    for round in 0..200u64 {
        let batch: Vec<_> = (0..3).map(|_| AppendRequest::Event(event(&key, "{}"))).collect();
        let limit = Duration::from_micros(round * 10);
        cut_short += u32::from(tokio::time::timeout(limit, desk.store.append(&batch, NOW)).await.is_err());
    }
    assert!(cut_short > 0, "no call was dropped: the case is void");

    append(&desk.store, &[AppendRequest::Event(event(&key, "{}"))]).await;
    let views = desk.store.list_events(&key.tenant, &EventFilter::default(), None, 10_000).await.unwrap();
    assert_eq!((views.len() - 2) % 3, 0, "a batch is all there or not at all");
    assert!(views.windows(2).all(|pair| pair[0].accept_no < pair[1].accept_no));
}

/// A shell leaves its transaction open: an answer comes in time, and work continues after it.
#[tokio::test]
async fn locked_file_is_unavailable_then_recovers() {
    let desk = SqliteDesk::fresh().await;
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::default() };
    let store = SqliteStore::open(desk.path().to_str().unwrap(), options).await.unwrap();

    let mut shell = desk.shell();
    let held = shell.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    let key = execution("o-1");
    let refused = store.append(&[start(&key, "{}", ExecutionPhase::Active)], NOW).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    held.rollback().unwrap();
    append(&store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
}

/// Waiting in the writer's queue is limited.
#[tokio::test]
async fn stuck_writer_queue_is_unavailable() {
    let desk = SqliteDesk::fresh().await;
    let options = SqliteOptions {
        busy_timeout: Duration::from_secs(5),
        acquire_timeout: Duration::from_millis(50),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(desk.path().to_str().unwrap(), options).await.unwrap();
    let mut shell = desk.shell();
    let held = shell.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let (first, second) = tokio::join!(
        async {
            let first = store.ping();
            tokio::pin!(first);
            // Long enough that the second one times out, short enough for the file's busy timeout.
            let waited = tokio::time::timeout(Duration::from_millis(500), &mut first).await;
            assert!(waited.is_err(), "the file is held: {waited:?}");
            held.rollback().unwrap();
            first.await
        },
        async {
            tokio::task::yield_now().await;
            store.ping().await
        }
    );
    assert!(matches!(second, Err(StoreError::Unavailable(_))), "{second:?}");
    first.unwrap();
}

/// Calls that queue while the file is locked share one transaction; one of them cannot be written.
#[tokio::test]
async fn failing_call_spares_its_group_commit() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
    let hostile = EventSubmission { actor: Some("a\0b".to_owned()), ..event(&key, "{}") };
    let batches = [event(&key, "1"), hostile, event(&key, "2")].map(|event| [AppendRequest::Event(event)]);

    let mut shell = desk.shell();
    let held = shell.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let (first, spoilt, last, ()) = tokio::join!(
        desk.store.append(&batches[0], NOW),
        desk.store.append(&batches[1], NOW),
        desk.store.append(&batches[2], NOW),
        async { held.rollback().unwrap() },
    );
    assert_eq!(first.unwrap(), [Appended::Accepted { accept_no: AcceptNo(2) }]);
    assert!(matches!(spoilt, Err(StoreError::Corrupt(_))), "{spoilt:?}");
    assert_eq!(last.unwrap(), [Appended::Accepted { accept_no: AcceptNo(3) }]);
    assert_eq!(desk.store.count_backlog().await.unwrap().undecided, 2);
}

#[tokio::test]
async fn timed_out_call_never_runs() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
    let options = SqliteOptions { acquire_timeout: Duration::from_millis(50), ..SqliteOptions::default() };
    let store = SqliteStore::open(desk.path().to_str().unwrap(), options).await.unwrap();

    let mut shell = desk.shell();
    let held = shell.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let batch = [AppendRequest::Event(event(&key, "{}"))];
    let (led, gave_up) = tokio::join!(store.ping(), async {
        let gave_up = store.append(&batch, NOW).await;
        held.rollback().unwrap();
        gave_up
    });
    led.unwrap();
    assert!(matches!(gave_up, Err(StoreError::Unavailable(_))), "{gave_up:?}");
    store.ping().await.unwrap();
    assert_eq!(store.count_backlog().await.unwrap().undecided, 0);
}
