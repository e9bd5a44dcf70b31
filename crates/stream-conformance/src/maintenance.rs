//! Cases of stream maintenance for duties and operators.

use std::time::{Duration, Instant};

use millstream_model::lane::{LANES, Lane};
use millstream_stream::doorbell::DoorbellReader;

use crate::fixture::{HOUR, PATIENCE, StreamFixture, bells, hear, worker};

pub async fn generation_is_stable_without_loss(bench: StreamFixture) {
    let first = bench.streams.care.ensure_generation().await.unwrap();
    assert!(!first.is_empty());
    bench.ring(&bells(0, 1)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 1).await;
    bench.ack(&heard).await;
    assert_eq!(bench.streams.care.ensure_generation().await.unwrap(), first);
}

pub async fn lane_stats_count_waiting_and_pending(bench: StreamFixture) {
    bench.ring(&bells(2, 5)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = reader.read_deliveries(3, Duration::ZERO).await.unwrap();
    assert_eq!(heard.len(), 3);
    bench.ack(&heard[..1]).await;
    bench.ring(&bells(9, 2)).await;
    let rows = bench.streams.care.lane_stats().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.lane).collect::<Vec<_>>(), Lane::all().collect::<Vec<_>>());
    assert_eq!(rows.len(), usize::from(LANES));
    for row in rows {
        let expected = match row.lane.number() {
            2 => (4, 2, 2),
            9 => (2, 0, 2),
            _ => (0, 0, 0),
        };
        assert_eq!((row.length, row.pending, row.lag), expected, "lane {}", row.lane.number());
    }
}

pub async fn consumer_with_pending_entries_is_kept(bench: StreamFixture) {
    bench.ring(&bells(4, 2)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("w")), Duration::ZERO).await.unwrap(), 0);
    assert_eq!(bench.pending().await, 2);
    bench.ack(&heard).await;
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("w")), HOUR).await.unwrap(), 1);
}

pub async fn gone_consumer_is_removed_at_once(bench: StreamFixture) {
    for name in ["gone", "stays"] {
        let mut reader = bench.join(&worker(name)).await;
        serve(&bench, &mut reader).await;
    }
    assert_eq!(bench.streams.care.remove_consumers(None, HOUR).await.unwrap(), 0);
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("gone")), HOUR).await.unwrap(), 1);
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("gone")), HOUR).await.unwrap(), 0);
}

pub async fn only_idle_consumer_is_removed(bench: StreamFixture) {
    let idle = Duration::from_millis(600);
    let mut silent = bench.join(&worker("silent")).await;
    serve(&bench, &mut silent).await;
    let mut busy = bench.join(&worker("busy")).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        serve(&bench, &mut busy).await;
        match bench.streams.care.remove_consumers(None, idle).await.unwrap() {
            0 => assert!(Instant::now() < deadline, "the silent one was not removed"),
            removed => {
                assert_eq!(removed, 1);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("silent")), HOUR).await.unwrap(), 0);
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("busy")), HOUR).await.unwrap(), 1);
}

pub async fn removed_consumer_returns_with_next_entry(bench: StreamFixture) {
    let mut reader = bench.join(&worker("w")).await;
    serve(&bench, &mut reader).await;
    let blocked = tokio::spawn(async move { reader.read_deliveries(10, PATIENCE).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.streams.care.remove_consumers(Some(&worker("w")), HOUR).await.unwrap(), 1);
    bench.ring(&bells(0, 1)).await;
    assert_eq!(blocked.await.unwrap().len(), 1);
    assert_eq!(bench.pending().await, 1);
}

/// Delivers an entry to the reader and acknowledges it. A server may not know a consumer, or count it as
/// active, before its first delivery.
async fn serve(bench: &StreamFixture, reader: &mut Box<dyn DoorbellReader>) {
    bench.ring(&bells(0, 1)).await;
    let heard = hear(reader, 1).await;
    bench.ack(&heard).await;
}

pub async fn sound_server_passes_check(bench: StreamFixture) {
    assert_eq!(bench.streams.care.check_server().await.unwrap(), Vec::<String>::new());
}
