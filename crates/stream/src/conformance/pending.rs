//! Cases of pending deliveries and their acknowledgement.

use std::time::Duration;

use super::bench::{Bench, SLICE, bells, entries, hear, worker};
use crate::doorbell::EntryId;

pub async fn what_is_read_is_pending_and_not_read_again(bench: Bench) {
    bench.ring(&bells(0, 3)).await;
    let mut reader = bench.join(&worker("w")).await;
    hear(&mut reader, 3).await;
    let mut other = bench.join(&worker("other")).await;
    assert!(reader.read(10, Duration::ZERO).await.unwrap().is_empty());
    assert!(other.read(10, SLICE).await.unwrap().is_empty());
    assert_eq!((bench.pending().await, bench.length().await), (3, 3));
}

pub async fn anybody_may_acknowledge(bench: Bench) {
    bench.ring(&bells(0, 2)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    drop(reader);
    bench.ack(&heard).await;
    assert_eq!((bench.pending().await, bench.length().await), (0, 0));
}

pub async fn acknowledging_again_or_nothing_is_harmless(bench: Bench) {
    let rung = bells(0, 2);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    bench.ack(&heard[..1]).await;
    bench.ack(&heard[..1]).await;
    bench.ack(&[]).await;
    bench.ack(&[heard[0].clone(), heard[0].clone()]).await;
    let never = EntryId { lane: heard[0].entry.lane, id: "987654321".to_owned() };
    bench.streams.bells.ack(&[never]).await.unwrap();
    assert_eq!((bench.pending().await, bench.length().await), (1, 1));
}

pub async fn what_is_acknowledged_never_comes_back(bench: Bench) {
    bench.ring(&bells(7, 4)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 4).await;
    bench.ack(&heard).await;
    bench.streams.bells.refresh(&worker("w"), &entries(&heard)).await.unwrap();
    assert!(bench.reclaim(&worker("other"), Duration::ZERO, 100).await.is_empty());
    assert!(reader.read(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn acknowledging_leaves_the_others_pending(bench: Bench) {
    bench.ring(&bells(1, 3)).await;
    bench.ring(&bells(2, 3)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 6).await;
    let (some, rest): (Vec<_>, Vec<_>) = heard.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    let some: Vec<_> = some.into_iter().map(|(_, delivery)| delivery).collect();
    bench.ack(&some).await;
    let mut left = entries(&bench.reclaim(&worker("other"), Duration::ZERO, 100).await);
    let mut expected: Vec<_> = rest.into_iter().map(|(_, delivery)| delivery.entry).collect();
    left.sort();
    expected.sort();
    assert_eq!(left, expected);
}
