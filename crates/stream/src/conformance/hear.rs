//! Cases of announcements.

use std::time::Duration;

use millstream_core::id::{EventId, Seq};
use tokio::sync::broadcast;
use tokio::time::timeout;

use super::bench::{Bench, PATIENCE, execution, tenant_of_lane};
use crate::announce::News;

fn news(count: usize) -> Vec<News> {
    (0..count)
        .map(|n| News {
            execution: execution(&tenant_of_lane(3), n),
            seq: Seq(i64::try_from(n).unwrap() + 1),
            event: (n % 2 == 0).then(|| EventId(uuid::Uuid::from_u128(n as u128))),
        })
        .collect()
}

async fn next(listener: &mut broadcast::Receiver<News>) -> News {
    timeout(PATIENCE, listener.recv()).await.expect("nothing was heard").unwrap()
}

pub async fn news_reach_every_listener(bench: Bench) {
    let announcer = &bench.streams.announcer;
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(announcer.listen().await.unwrap());
    }
    let said = news(2);
    announcer.announce(&said).await.unwrap();
    for listener in &mut listeners {
        assert_eq!([next(listener).await, next(listener).await], said[..]);
    }
}

pub async fn a_large_batch_of_news_arrives_whole_and_in_order(bench: Bench) {
    let mut listener = bench.streams.announcer.listen().await.unwrap();
    let said = news(1_000);
    bench.streams.announcer.announce(&said).await.unwrap();
    for expected in said {
        assert_eq!(next(&mut listener).await, expected);
    }
}

pub async fn a_listener_hears_what_comes_after_it(bench: Bench) {
    let announcer = &bench.streams.announcer;
    let said = news(2);
    let mut early = announcer.listen().await.unwrap();
    announcer.announce(&said[..1]).await.unwrap();
    assert_eq!(next(&mut early).await, said[0]);
    let mut late = announcer.listen().await.unwrap();
    announcer.announce(&said[1..]).await.unwrap();
    assert_eq!(next(&mut late).await, said[1]);
}

pub async fn announcing_to_nobody_is_no_error(bench: Bench) {
    timeout(Duration::from_secs(10), bench.streams.announcer.announce(&news(1))).await.unwrap().unwrap();
    bench.streams.announcer.announce(&[]).await.unwrap();
}
