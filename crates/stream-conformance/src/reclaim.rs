//! Cases of reclaiming from dead consumers, and of refreshing.

use std::time::{Duration, Instant};

use millstream_stream::doorbell::RedeliveryMark;

use crate::fixture::{HOUR, StreamFixture, bells, entries, hear, until_some, worker};

/// The idle time that cases wait for: long against one round trip, short against `PATIENCE`.
const IDLE: Duration = Duration::from_millis(600);

pub async fn reclaim_leaves_fresh_entries(bench: StreamFixture) {
    bench.ring(&bells(0, 3)).await;
    let mut reader = bench.join(&worker("w")).await;
    hear(&mut reader, 3).await;
    assert!(bench.reclaim(&worker("other"), HOUR, 100).await.is_empty());
    assert_eq!(
        bench.reclaim(&worker("other"), Duration::ZERO, 100).await.len(),
        3,
        "they were there to take"
    );
}

pub async fn idle_entry_is_reclaimed_once(bench: StreamFixture) {
    let rung = bells(5, 1);
    bench.ring(&rung).await;
    let started = Instant::now();
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 1).await;
    let heir = worker("heir");
    let taken = until_some(|| bench.reclaim(&heir, IDLE, 100)).await;
    assert!(started.elapsed() >= IDLE, "taken after {:?}", started.elapsed());
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].redelivered, RedeliveryMark::Again);
    assert_eq!((&taken[0].entry, &taken[0].bell), (&heard[0].entry, &rung[0]));
    assert!(bench.reclaim(&worker("third"), HOUR, 100).await.is_empty(), "it is fresh with its heir");
    assert_eq!(bench.pending().await, 1);
}

pub async fn dropped_reader_entries_are_reclaimed(bench: StreamFixture) {
    bench.ring(&bells(0, 4)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 4).await;
    drop(reader);
    let mut heir = bench.join(&worker("heir")).await;
    assert!(heir.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
    let taken = bench.reclaim(&worker("heir"), Duration::ZERO, 100).await;
    assert_eq!(entries(&taken), entries(&heard));
    bench.ack(&taken).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn reclaim_respects_its_maximum(bench: StreamFixture) {
    for lane in [1, 6, 13] {
        bench.ring(&bells(lane, 10)).await;
    }
    let mut reader = bench.join(&worker("w")).await;
    hear(&mut reader, 30).await;
    let mut taken = Vec::new();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let some = bench.reclaim(&worker("heir"), Duration::ZERO, 12).await;
        bench.ack(&some).await;
        sizes.push(some.len());
        taken.extend(entries(&some));
    }
    assert_eq!(sizes, [12, 12, 6, 0]);
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 30);
}

pub async fn reclaim_scans_past_fresh_entries(bench: StreamFixture) {
    bench.ring(&bells(3, 3_000)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 3_000).await;
    let (working, left): (&[_], &[_]) = heard.split_at(2_990);
    let refresh =
        async || bench.streams.bells.refresh_entries(&worker("w"), &entries(working)).await.unwrap();
    let since = Instant::now();
    while since.elapsed() <= IDLE * 2 {
        refresh().await;
    }
    // One call must find them, however small a part of the list one command scans.
    let mut found = entries(&bench.reclaim(&worker("heir"), IDLE * 2, 10).await);
    found.sort();
    let mut expected = entries(left);
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn refreshed_entry_is_not_reclaimed(bench: StreamFixture) {
    bench.ring(&bells(0, 2)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    let kept = heard[0].entry.clone();
    // The other entry becomes idle meanwhile, which shows that enough time has passed.
    let taken = until_some(async || {
        bench.streams.bells.refresh_entries(&worker("w"), std::slice::from_ref(&kept)).await.unwrap();
        bench.reclaim(&worker("heir"), IDLE, 100).await
    })
    .await;
    assert_eq!(entries(&taken), [heard[1].entry.clone()]);
}

pub async fn refresh_never_takes_entry_back(bench: StreamFixture) {
    bench.ring(&bells(0, 1)).await;
    let mut reader = bench.join(&worker("paused")).await;
    let heard = hear(&mut reader, 1).await;
    assert_eq!(bench.reclaim(&worker("heir"), Duration::ZERO, 1).await.len(), 1);
    // The paused consumer resumes its refreshes; the heir dies. The entry must not stay fresh forever.
    let taken = until_some(async || {
        bench.streams.bells.refresh_entries(&worker("paused"), &entries(&heard)).await.unwrap();
        bench.reclaim(&worker("third"), IDLE, 1).await
    })
    .await;
    assert_eq!(entries(&taken), entries(&heard));
}

pub async fn refresh_of_missing_entry_is_harmless(bench: StreamFixture) {
    bench.ring(&bells(0, 2)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    bench.ack(&heard[..1]).await;
    bench.streams.bells.refresh_entries(&worker("w"), &entries(&heard)).await.unwrap();
    bench.streams.bells.refresh_entries(&worker("w"), &[]).await.unwrap();
    assert_eq!((bench.pending().await, bench.length().await), (1, 1));
}
