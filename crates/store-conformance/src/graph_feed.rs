//! The feed: what happened to graphs, in order, exactly once.

use std::collections::BTreeSet;

use millstream_store::feed::FeedEntry;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{execution, execution_of};
use crate::graph::{dispatch, node, rows, running, told};

pub async fn graph_commit_is_one_feed_entry(bench: ConformanceBench) {
    let key = execution("g");
    let now = bench.now().await;
    let state = bench.start_graph(&key, vec![node("a", &[], &[])]).await;
    let events = [bench.post(&key, "go").await, bench.post(&key, "go").await, bench.post(&key, "go").await];
    let visit = events
        .iter()
        .fold(ConformanceVisit::to(&key, &state, now), |visit, event| visit.apply(*event, "working"));
    let state = bench.commit_done(visit.graph(rows(vec![running("a")]))).await;
    bench.change_graph(&key, &state, rows(vec![])).await;
    let entries = bench.feed(&key).await;
    assert_eq!(told(&entries), ["1-1", "2-4", "5-5"]);
    assert!(entries.iter().all(|entry| entry.execution == key && entry.at >= now));
    assert!(entries.windows(2).all(|pair| pair[0].position < pair[1].position));
    let after = bench.stores.feed.read_feed(&key, entries[0].position, 1).await.unwrap();
    assert_eq!(told(&after), ["2-4"], "after a position, no more than the limit");
}

pub async fn dispatch_batch_is_one_entry_per_execution(bench: ConformanceBench) {
    let (one, other) = (execution("one"), execution_of("other", "two"));
    for key in [&one, &other] {
        let nodes = vec![node("a", &[], &[]), node("b", &[], &[])];
        bench.graph_with(key, nodes, vec![running("a"), running("b")]).await;
    }
    let batch =
        [dispatch(&one, "b", 1), dispatch(&other, "a", 1), dispatch(&one, "a", 1), dispatch(&one, "x", 1)];
    bench.dispatch(&batch, 0).await;
    let entry = |node: &str| {
        format!(r#"{{"node":"{node}","attempt":1,"executor":"exec-1","reason":"the only one"}}"#)
    };
    let of_one = format!("[{},{}]", entry("b"), entry("a"));
    assert_eq!(told(&bench.feed(&one).await), ["1-1", "2-2", of_one.as_str()]);
    assert_eq!(told(&bench.feed(&other).await)[2], format!("[{}]", entry("a")));
}

/// A follower that continues after its last position misses no entry, however commits and dispatches
/// interleave.
pub async fn feed_entries_appear_in_position_order(bench: ConformanceBench) {
    const ROUNDS: usize = 40;
    let key = execution("g");
    // Each works on a node of its own: they do not wait for node rows.
    let nodes = ["a", "b", "c"].map(|id| node(id, &[], &[])).to_vec();
    let state = bench.graph_with(&key, nodes, vec![running("a"), running("b"), running("c")]).await;
    let committing = {
        let (bench, key, mut state) = (bench.clone(), key.clone(), state);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                state = bench.change_graph(&key, &state, rows(vec![running("a")])).await;
            }
        })
    };
    let dispatching = ["b", "c"].map(|id| {
        let (bench, key) = (bench.clone(), key.clone());
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                bench.dispatch(&[dispatch(&key, id, 1)], 0).await;
            }
        })
    });
    let mut seen: Vec<FeedEntry> = Vec::new();
    while seen.len() < 3 * ROUNDS + 2 {
        let after = seen.last().map_or(0, |entry| entry.position);
        seen.extend(bench.stores.feed.read_feed(&key, after, 7).await.unwrap());
        let over = committing.is_finished() && dispatching.iter().all(tokio::task::JoinHandle::is_finished);
        let last = seen.last().map_or(0, |entry| entry.position);
        if over && bench.stores.feed.read_feed(&key, last, 1).await.unwrap().is_empty() {
            break;
        }
    }
    committing.await.unwrap();
    for task in dispatching {
        task.await.unwrap();
    }
    let positions = |entries: &[FeedEntry]| entries.iter().map(|entry| entry.position).collect::<Vec<_>>();
    assert_eq!(positions(&seen), positions(&bench.feed(&key).await), "the follower missed nothing");
    assert_eq!(seen.len(), 3 * ROUNDS + 2);
    assert_eq!(positions(&seen).into_iter().collect::<BTreeSet<_>>().len(), seen.len());
}
