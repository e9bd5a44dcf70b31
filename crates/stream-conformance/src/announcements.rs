//! Cases of announcements.

use std::time::Duration;

use millstream_model::id::{EventId, Seq};
use millstream_stream::announcement::Announcement;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::fixture::{PATIENCE, StreamFixture, execution, tenant_of_lane};

fn news(count: usize) -> Vec<Announcement> {
    (0..count)
        .map(|n| Announcement {
            execution: execution(&tenant_of_lane(3), n),
            seq: Seq(i64::try_from(n).unwrap() + 1),
            event: (n % 2 == 0).then(|| EventId(uuid::Uuid::from_u128(n as u128))),
        })
        .collect()
}

async fn next(listener: &mut broadcast::Receiver<Announcement>) -> Announcement {
    timeout(PATIENCE, listener.recv()).await.expect("nothing was heard").unwrap()
}

pub async fn announcements_reach_every_listener(bench: StreamFixture) {
    let announcer = &bench.streams.announcer;
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(announcer.subscribe_all().await.unwrap());
    }
    let said = news(2);
    announcer.announce_commits(&said).await.unwrap();
    for listener in &mut listeners {
        assert_eq!([next(listener).await, next(listener).await], said[..]);
    }
}

pub async fn large_announcement_batch_arrives_in_order(bench: StreamFixture) {
    let mut listener = bench.streams.announcer.subscribe_all().await.unwrap();
    let said = news(1_000);
    bench.streams.announcer.announce_commits(&said).await.unwrap();
    for expected in said {
        assert_eq!(next(&mut listener).await, expected);
    }
}

pub async fn listener_receives_later_announcements(bench: StreamFixture) {
    let announcer = &bench.streams.announcer;
    let said = news(2);
    let mut early = announcer.subscribe_all().await.unwrap();
    announcer.announce_commits(&said[..1]).await.unwrap();
    assert_eq!(next(&mut early).await, said[0]);
    let mut late = announcer.subscribe_all().await.unwrap();
    announcer.announce_commits(&said[1..]).await.unwrap();
    assert_eq!(next(&mut late).await, said[1]);
}

pub async fn announcing_without_listener_succeeds(bench: StreamFixture) {
    timeout(Duration::from_secs(10), bench.streams.announcer.announce_commits(&news(1)))
        .await
        .unwrap()
        .unwrap();
    bench.streams.announcer.announce_commits(&[]).await.unwrap();
}
