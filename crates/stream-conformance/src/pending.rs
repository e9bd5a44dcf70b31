//! Cases of pending deliveries and their acknowledgement.

use std::time::Duration;

use millstream_stream::doorbell::StreamEntryId;

use crate::fixture::{SLICE, StreamFixture, bells, entries, hear, worker};

pub async fn delivered_entry_is_pending(bench: StreamFixture) {
    bench.ring(&bells(0, 3)).await;
    let mut reader = bench.join(&worker("w")).await;
    hear(&mut reader, 3).await;
    let mut other = bench.join(&worker("other")).await;
    assert!(reader.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
    assert!(other.read_deliveries(10, SLICE).await.unwrap().is_empty());
    assert_eq!((bench.pending().await, bench.length().await), (3, 3));
}

pub async fn any_consumer_may_acknowledge(bench: StreamFixture) {
    bench.ring(&bells(0, 2)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    drop(reader);
    bench.ack(&heard).await;
    assert_eq!((bench.pending().await, bench.length().await), (0, 0));
}

pub async fn repeated_acknowledgement_is_harmless(bench: StreamFixture) {
    let rung = bells(0, 2);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 2).await;
    bench.ack(&heard[..1]).await;
    bench.ack(&heard[..1]).await;
    bench.ack(&[]).await;
    bench.ack(&[heard[0].clone(), heard[0].clone()]).await;
    let never = StreamEntryId { lane: heard[0].entry.lane, id: "987654321".to_owned() };
    bench.streams.bells.ack_entries(&[never]).await.unwrap();
    assert_eq!((bench.pending().await, bench.length().await), (1, 1));
}

pub async fn acknowledged_entry_never_returns(bench: StreamFixture) {
    bench.ring(&bells(7, 4)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, 4).await;
    bench.ack(&heard).await;
    bench.streams.bells.refresh_entries(&worker("w"), &entries(&heard)).await.unwrap();
    assert!(bench.reclaim(&worker("other"), Duration::ZERO, 100).await.is_empty());
    assert!(reader.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn acknowledgement_keeps_other_entries_pending(bench: StreamFixture) {
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

/// Two readers finish in the opposite order, while more entries wait.
pub async fn acknowledgement_out_of_order_removes_exactly_its_entries(bench: StreamFixture) {
    bench.ring(&bells(0, 9)).await;
    let mut first = bench.join(&worker("first")).await;
    let mut second = bench.join(&worker("second")).await;
    let one = first.read_deliveries(3, SLICE).await.unwrap();
    let two = second.read_deliveries(3, SLICE).await.unwrap();
    assert_eq!((one.len(), two.len()), (3, 3));
    bench.ack(&two[1..]).await;
    assert_eq!((bench.pending().await, bench.length().await), (4, 7));
    bench.ack(&one).await;
    assert_eq!((bench.pending().await, bench.length().await), (1, 4));
    bench.ack(&two[..1]).await;
    assert_eq!((bench.pending().await, bench.length().await), (0, 3));
    assert_eq!(hear(&mut first, 3).await.len(), 3);
}
