//! The outbox: spread once, due in order, handed over or put off, per sink.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::time::Timestamp;
use millstream_store::outbox::{
    DeliveredParcel, FeedParcel, ParcelBackoff, ParcelLimit, SinkBacklog, SinkPosition,
};

use crate::ConformanceBench;
use crate::fixture::{HOUR, execution, execution_of, name};
use crate::graph::{dispatch, node, rows, running, told};

const ALL: ParcelLimit = ParcelLimit { executions: 99, entries: 99 };

async fn due(bench: &ConformanceBench, sink: &str) -> Vec<FeedParcel> {
    bench.stores.outbox.due_parcels(&name(sink), ALL, bench.now().await).await.unwrap()
}

async fn spread(bench: &ConformanceBench, sinks: &[&str]) -> usize {
    let sinks: Vec<Name> = sinks.iter().map(|sink| name(sink)).collect();
    bench.stores.outbox.spread_entries(&sinks, 99, bench.now().await).await.unwrap()
}

/// The first `entries` of a parcel.
fn taken(parcel: &FeedParcel, entries: usize) -> DeliveredParcel {
    let last = &parcel.entries[entries - 1];
    DeliveredParcel {
        execution: parcel.execution.clone(),
        from: parcel.heard,
        to: SinkPosition { position: last.position, part: 0 },
        entries,
        at: last.at,
    }
}

async fn hand_over(bench: &ConformanceBench, sink: &str, parcels: &[DeliveredParcel]) {
    bench.stores.outbox.advance_sinks(&name(sink), parcels, bench.now().await).await.unwrap();
}

fn executions(parcels: &[FeedParcel]) -> Vec<&ExecutionKey> {
    parcels.iter().map(|parcel| &parcel.execution).collect()
}

/// A graph whose feed has this many entries.
async fn graph(bench: &ConformanceBench, key: &ExecutionKey, entries: usize) {
    let mut state = bench.start_graph(key, vec![node("a", &[], &[])]).await;
    for _ in 1..entries {
        state = bench.change_graph(key, &state, rows(vec![running("a")])).await;
    }
}

pub async fn feed_entry_is_spread_once(bench: ConformanceBench) {
    assert_eq!(spread(&bench, &["one"]).await, 0);
    let (first, second) = (execution("first"), execution_of("other", "second"));
    bench.start(&execution("machine")).await;
    graph(&bench, &first, 1).await;
    assert_eq!(spread(&bench, &[]).await, 1, "no sink is configured");
    graph(&bench, &second, 2).await;
    let now = bench.now().await;
    assert_eq!(bench.stores.outbox.spread_entries(&[name("one"), name("two")], 1, now).await.unwrap(), 1);
    assert_eq!(spread(&bench, &["one"]).await, 1);
    assert_eq!(spread(&bench, &["one", "two"]).await, 0);
    let (one, two) = (due(&bench, "one").await, due(&bench, "two").await);
    assert_eq!(executions(&one), [&second]);
    assert_eq!(told(&one[0].entries), ["1-1", "2-2"]);
    assert_eq!(told(&two[0].entries), ["1-1"]);
    assert!(due(&bench, "three").await.is_empty());
    assert_eq!(told(&bench.feed(&first).await), ["1-1"], "watchers see it as before");
}

pub async fn sink_receives_execution_entries_in_order(bench: ConformanceBench) {
    let key = execution("g");
    graph(&bench, &key, 4).await;
    spread(&bench, &["one", "two"]).await;
    let outbox = &bench.stores.outbox;
    let short = ParcelLimit { executions: 9, entries: 2 };
    let parcels = outbox.due_parcels(&name("one"), short, bench.now().await).await.unwrap();
    assert_eq!(told(&parcels[0].entries), ["1-1", "2-2"]);
    assert_eq!((parcels[0].attempts, parcels[0].upto > parcels[0].entries[1].position), (0, true));
    hand_over(&bench, "one", &[taken(&parcels[0], 1)]).await;
    let parcels = due(&bench, "one").await;
    assert_eq!(told(&parcels[0].entries), ["2-2", "3-3", "4-4"]);
    hand_over(&bench, "one", &[taken(&parcels[0], 3)]).await;
    assert!(due(&bench, "one").await.is_empty());
    assert_eq!(due(&bench, "two").await[0].entries.len(), 4, "another sink is where it was");
    hand_over(&bench, "one", &[]).await;
}

pub async fn postponed_execution_blocks_no_other(bench: ConformanceBench) {
    let (bad, good) = (execution("bad"), execution("good"));
    graph(&bench, &bad, 1).await;
    graph(&bench, &good, 1).await;
    spread(&bench, &["one", "two"]).await;
    let (outbox, now) = (&bench.stores.outbox, bench.now().await);
    let until = now.plus(HOUR);
    let later = ParcelBackoff { execution: bad.clone(), until, attempts: 3 };
    outbox.postpone_parcels(&name("one"), &[later]).await.unwrap();
    outbox.postpone_parcels(&name("one"), &[]).await.unwrap();
    graph(&bench, &execution("third"), 1).await;
    spread(&bench, &["one"]).await;
    assert_eq!(executions(&due(&bench, "one").await), [&good, &execution("third")]);
    assert_eq!(due(&bench, "two").await.len(), 2);
    let parcels = outbox.due_parcels(&name("one"), ALL, until).await.unwrap();
    assert_eq!(executions(&parcels)[2], &bad, "the longest due come first");
    assert_eq!(parcels[2].attempts, 3);
    let one = ParcelLimit { executions: 1, entries: 9 };
    assert_eq!(executions(&outbox.due_parcels(&name("one"), one, until).await.unwrap()).len(), 1);
    hand_over(&bench, "one", &[taken(&parcels[2], 1)]).await;
    assert_eq!(outbox.due_parcels(&name("one"), ALL, until).await.unwrap().len(), 2);
}

pub async fn entry_during_delivery_is_due_afterwards(bench: ConformanceBench) {
    let key = execution("g");
    let state = bench.graph_with(&key, vec![node("a", &[], &[])], vec![running("a")]).await;
    spread(&bench, &["one"]).await;
    let before = due(&bench, "one").await;
    bench.dispatch(&[dispatch(&key, "a", 1)], 0).await;
    bench.change_graph(&key, &state, rows(vec![])).await;
    spread(&bench, &["one"]).await;
    hand_over(&bench, "one", &[taken(&before[0], 2)]).await;
    let after = due(&bench, "one").await;
    assert_eq!(after[0].entries.len(), 2);
    assert!(after[0].entries[0].position > before[0].entries[1].position);
}

pub async fn stale_hand_over_changes_nothing(bench: ConformanceBench) {
    let key = execution("g");
    graph(&bench, &key, 3).await;
    spread(&bench, &["one"]).await;
    let seen_by_both = due(&bench, "one").await;
    hand_over(&bench, "one", &[taken(&seen_by_both[0], 2)]).await;
    hand_over(&bench, "one", &[taken(&seen_by_both[0], 1)]).await;
    hand_over(&bench, "one", &[taken(&seen_by_both[0], 3)]).await;
    assert_eq!(told(&due(&bench, "one").await[0].entries), ["3-3"], "a late hand-over reverts nothing");
    let rest = due(&bench, "one").await;
    hand_over(&bench, "one", &[taken(&rest[0], 1)]).await;
    hand_over(&bench, "one", &[taken(&rest[0], 1)]).await;
    assert!(due(&bench, "one").await.is_empty());
}

pub async fn partial_entry_progress_is_stored(bench: ConformanceBench) {
    let key = execution("g");
    graph(&bench, &key, 2).await;
    spread(&bench, &["one"]).await;
    let parcel = due(&bench, "one").await.remove(0);
    assert_eq!(parcel.heard.part, 0);
    let some = SinkPosition { part: 3, ..parcel.heard };
    let at = parcel.entries[0].at;
    let part = DeliveredParcel { execution: key.clone(), from: parcel.heard, to: some, entries: 0, at };
    hand_over(&bench, "one", &[part.clone()]).await;
    hand_over(&bench, "one", &[DeliveredParcel { to: SinkPosition { part: 2, ..some }, ..part }]).await;
    let parcel = due(&bench, "one").await.remove(0);
    assert_eq!((parcel.heard, parcel.entries.len()), (some, 2), "a late hand-over reverts nothing");
    hand_over(&bench, "one", &[taken(&parcel, 1)]).await;
    let parcel = due(&bench, "one").await.remove(0);
    assert_eq!((parcel.heard.part, told(&parcel.entries)), (0, vec!["2-2".to_owned()]));
}

pub async fn sink_backlogs_are_counted(bench: ConformanceBench) {
    let outbox = &bench.stores.outbox;
    assert!(outbox.count_backlogs().await.unwrap().is_empty());
    graph(&bench, &execution("g"), 3).await;
    graph(&bench, &execution("h"), 1).await;
    spread(&bench, &["b", "a"]).await;
    let oldest = bench.feed(&execution("g")).await[0].at;
    let parcels = due(&bench, "b").await;
    let parcel = parcels.iter().find(|parcel| parcel.execution == execution("g")).unwrap();
    hand_over(&bench, "b", &[taken(parcel, 1)]).await;
    let of = |sink: &str, entries| SinkBacklog { sink: name(sink), executions: 2, entries, oldest };
    let found = outbox.count_backlogs().await.unwrap();
    let counted = |backlog: &SinkBacklog| (backlog.sink.clone(), backlog.executions, backlog.entries);
    let wanted = [of("a", 4), of("b", 3)];
    assert_eq!(found.iter().map(counted).collect::<Vec<_>>(), wanted.iter().map(counted).collect::<Vec<_>>());
    assert!(found.iter().all(|backlog| backlog.oldest >= oldest));
    assert_eq!(found[0].oldest, oldest);
}

/// A purge may happen between a read of the feed and the note about it.
pub async fn purged_entries_leave_empty_parcel(bench: ConformanceBench) {
    let key = execution("g");
    graph(&bench, &key, 1).await;
    spread(&bench, &["one"]).await;
    let parcel = due(&bench, "one").await.remove(0);
    let all = DeliveredParcel { to: SinkPosition { position: parcel.upto, part: 0 }, ..taken(&parcel, 1) };
    hand_over(&bench, "one", &[all]).await;
    assert!(due(&bench, "one").await.is_empty());
    let missing = DeliveredParcel { execution: execution("missing"), ..taken(&parcel, 1) };
    hand_over(&bench, "one", &[missing]).await;
}

pub async fn concurrent_spread_and_hand_over_lose_nothing(bench: ConformanceBench) {
    const ENTRIES: usize = 60;
    let keys = ["g", "h"].map(execution);
    let writing = keys.clone().map(|key| {
        let bench = bench.clone();
        tokio::spawn(async move { graph(&bench, &key, ENTRIES).await })
    });
    let spreading = [(), ()].map(|()| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let mut left = 200;
            while left > 0 {
                left = if spread_some(&bench).await == 0 { left - 1 } else { 200 };
                tokio::task::yield_now().await;
            }
        })
    });
    let mut heard: BTreeMap<ExecutionKey, Vec<i64>> = BTreeMap::new();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while heard.values().map(Vec::len).sum::<usize>() < 2 * ENTRIES {
        assert!(tokio::time::Instant::now() < deadline, "{heard:?}");
        spread_some(&bench).await;
        let short = ParcelLimit { executions: 9, entries: 3 };
        let late = Timestamp::from_millis(i64::MAX / 2);
        let parcels = bench.stores.outbox.due_parcels(&name("one"), short, late).await.unwrap();
        for parcel in &parcels {
            let positions = parcel.entries.iter().map(|entry| entry.position);
            heard.entry(parcel.execution.clone()).or_default().extend(positions);
        }
        let all: Vec<_> = parcels.iter().map(|parcel| taken(parcel, parcel.entries.len())).collect();
        hand_over(&bench, "one", &all).await;
    }
    for task in writing.into_iter().chain(spreading) {
        task.await.unwrap();
    }
    for key in &keys {
        let positions: Vec<i64> = bench.feed(key).await.iter().map(|entry| entry.position).collect();
        assert_eq!(heard[key], positions, "each once, in order");
    }
    assert!(due(&bench, "one").await.is_empty());
}

async fn spread_some(bench: &ConformanceBench) -> usize {
    bench.stores.outbox.spread_entries(&[name("one")], 5, bench.now().await).await.unwrap()
}
