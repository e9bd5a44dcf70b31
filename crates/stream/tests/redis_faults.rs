//! Faults of Redis and the recovery from them: real servers, real faults.

mod redis_server;

use std::time::{Duration, Instant};

use millstream_model::id::TenantId;
use millstream_stream::doorbell::{Doorbell, FullTenants, RedeliveryMark, TENANT_WINDOW};
use millstream_stream::locks::LockToken;
use millstream_stream::{RedisOptions, RedisStream, StreamError, StreamHandles};

use redis_server::{RedisFixture, bell, execution, lanes, worker};

const SLICE: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn flush_under_blocked_reader_is_amnesia() {
    let rig = RedisFixture::start().await;
    let generation = rig.streams.care.ensure_generation().await.unwrap();
    let mut reader = rig.join("w").await;
    let blocked =
        tokio::spawn(async move { (reader.read_deliveries(10, Duration::from_secs(20)).await, reader) });
    rig.until_blocked().await;
    rig.server.flush_all().await;
    let (outcome, mut reader) = blocked.await.unwrap();
    assert!(matches!(outcome, Err(StreamError::Amnesia(_))), "{outcome:?}");
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    assert_eq!(reader.read_deliveries(10, Duration::from_secs(20)).await.unwrap()[0].bell, bell(1));
    assert_ne!(rig.streams.care.ensure_generation().await.unwrap(), generation);
}

#[tokio::test]
async fn doorbell_after_flush_is_delivered() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.server.flush_all().await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    assert!(matches!(reader.read_deliveries(10, SLICE).await, Err(StreamError::Amnesia(_))));
    assert_eq!(reader.read_deliveries(10, SLICE).await.unwrap()[0].bell, bell(1));
}

#[tokio::test]
async fn destroyed_group_changes_generation() {
    let rig = RedisFixture::start().await;
    let generation = rig.streams.care.ensure_generation().await.unwrap();
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    let key = rig.bells_key();
    rig.command(&["XGROUP", "DESTROY", &key, "workers"]).await;
    assert!(matches!(reader.read_deliveries(10, SLICE).await, Err(StreamError::Amnesia(_))));
    assert_eq!(
        reader.read_deliveries(10, SLICE).await.unwrap()[0].bell,
        bell(1),
        "the new group starts at 0"
    );
    assert_ne!(
        rig.streams.care.ensure_generation().await.unwrap(),
        generation,
        "no other process noticed the loss"
    );
}

/// What the new group has not delivered yet is not removed with an entry that the old one had delivered.
#[tokio::test]
async fn acknowledgement_of_destroyed_group_removes_its_entry_only() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1), bell(2), bell(3)]).await.unwrap();
    let delivered = reader.read_deliveries(10, SLICE).await.unwrap();
    assert_eq!(delivered.len(), 3);
    let key = rig.bells_key();
    rig.command(&["XGROUP", "DESTROY", &key, "workers"]).await;
    assert!(matches!(reader.read_deliveries(10, SLICE).await, Err(StreamError::Amnesia(_))));
    rig.streams.bells.ack_entries(&[delivered[1].entry.clone()]).await.unwrap();
    let again = reader.read_deliveries(10, SLICE).await.unwrap();
    let bells: Vec<&Doorbell> = again.iter().map(|delivery| &delivery.bell).collect();
    assert_eq!(bells, [&bell(1), &bell(3)]);
}

#[tokio::test]
async fn acknowledgement_without_group_deletes_entries() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1), bell(2)]).await.unwrap();
    let delivered = reader.read_deliveries(10, SLICE).await.unwrap();
    let key = rig.bells_key();
    rig.command(&["XGROUP", "DESTROY", &key, "workers"]).await;
    rig.streams.bells.ack_entries(&[delivered[0].entry.clone()]).await.unwrap();
    let length: usize =
        rig.streams.care.lane_stats().await.unwrap().iter().map(|lane| lane.length as usize).sum();
    assert_eq!(length, 1);
}

#[tokio::test]
async fn reclaim_and_refresh_notice_destroyed_group() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    let entry = reader.read_deliveries(10, SLICE).await.unwrap().remove(0).entry;
    let key = rig.bells_key();
    rig.command(&["XGROUP", "DESTROY", &key, "workers"]).await;
    let outcome = rig.streams.bells.reclaim_idle(&worker("w"), HOUR, 10).await;
    assert!(matches!(outcome, Err(StreamError::Amnesia(_))), "{outcome:?}");
    rig.command(&["XGROUP", "DESTROY", &key, "workers"]).await;
    let outcome = rig.streams.bells.refresh_entries(&worker("w"), &[entry]).await;
    assert!(matches!(outcome, Err(StreamError::Amnesia(_))), "{outcome:?}");
}

#[tokio::test]
async fn flushed_scripts_are_sent_again() {
    let rig = RedisFixture::start().await;
    let (keys, token) = ([execution(1)], LockToken("a".to_owned()));
    for _ in 0..2 {
        assert_eq!(rig.streams.locks.acquire_locks(&keys, &token, HOUR).await.unwrap(), [true]);
        rig.command(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(rig.streams.locks.extend_locks(&keys, &token, HOUR).await.unwrap(), [true]);
        rig.command(&["SCRIPT", "FLUSH"]).await;
        rig.streams.locks.release_locks(&keys, &token).await.unwrap();
    }
    assert_eq!(
        rig.streams.locks.acquire_locks(&keys, &LockToken("b".to_owned()), HOUR).await.unwrap(),
        [true]
    );
}

#[tokio::test]
async fn empty_restarted_server_is_new_generation() {
    let mut rig = RedisFixture::start().await;
    let generation = rig.streams.care.ensure_generation().await.unwrap();
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    assert_eq!(reader.read_deliveries(10, SLICE).await.unwrap().len(), 1);
    rig.server.kill();
    assert!(matches!(reader.read_deliveries(10, SLICE).await, Err(StreamError::Unavailable(_))));
    assert!(matches!(rig.streams.bells.publish_bells(&[bell(2)]).await, Err(StreamError::Unavailable(_))));
    rig.server.start_empty().await;
    let mut forgot = 0;
    let deadline = Instant::now() + Duration::from_secs(30);
    let heard = loop {
        assert!(Instant::now() < deadline, "the reader did not recover");
        match reader.read_deliveries(10, SLICE).await {
            Ok(none) if none.is_empty() => rig.streams.bells.publish_bells(&[bell(3)]).await.unwrap(),
            Ok(heard) => break heard,
            Err(StreamError::Amnesia(_)) => forgot += 1,
            Err(StreamError::Unavailable(_)) => {}
            Err(error @ StreamError::Unusable(_)) => panic!("{error}"),
        }
    };
    assert_eq!((heard[0].bell.clone(), forgot), (bell(3), 1));
    assert_ne!(rig.streams.care.ensure_generation().await.unwrap(), generation);
}

#[tokio::test]
async fn unseen_entries_are_read_after_error() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    let seen = reader.read_deliveries(10, SLICE).await.unwrap();
    // The future is dropped while it blocks; the server hands the next entry to the dropped request.
    let cut = tokio::time::timeout(SLICE, reader.read_deliveries(10, Duration::from_secs(2))).await;
    assert!(cut.is_err());
    rig.hand_out_unseen("w", &[bell(2), bell(3)]).await;
    let heard = reader.read_deliveries(1, SLICE).await.unwrap();
    assert_eq!((heard.len(), heard[0].bell.clone()), (1, bell(2)));
    assert_eq!(heard[0].redelivered, RedeliveryMark::First, "no code has tried it");
    assert_eq!(reader.read_deliveries(1, SLICE).await.unwrap()[0].bell, bell(3));
    rig.streams.bells.publish_bells(&[bell(4)]).await.unwrap();
    assert_eq!(reader.read_deliveries(10, SLICE).await.unwrap()[0].bell, bell(4));
    assert_eq!(seen[0].bell, bell(1), "and what was seen did not come again");
}

#[tokio::test]
async fn entries_of_broken_connection_are_read_back() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    let blocked =
        tokio::spawn(async move { (reader.read_deliveries(10, Duration::from_secs(20)).await, reader) });
    rig.until_blocked().await;
    rig.kill_blocked_clients().await;
    let (outcome, mut reader) = blocked.await.unwrap();
    assert!(matches!(outcome, Err(StreamError::Unavailable(_))), "{outcome:?}");
    rig.hand_out_unseen("w", &[bell(1)]).await;
    assert_eq!(reader.read_deliveries(10, SLICE).await.unwrap()[0].bell, bell(1));
}

#[tokio::test]
async fn unreadable_entry_is_dropped_alone() {
    let rig = RedisFixture::start().await;
    let key = rig.bells_key();
    let mut reader = rig.join("w").await;
    rig.command(&["XADD", &key, "*", "hello", "world"]).await;
    rig.command(&["XADD", &key, "*", "b", "m", "t", "NOT A TENANT", "e", "x"]).await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    let heard = reader.read_deliveries(10, SLICE).await.unwrap();
    assert_eq!(heard.len(), 1);
    rig.streams.bells.ack_entries(&[heard[0].entry.clone()]).await.unwrap();
    let rows = rig.streams.care.lane_stats().await.unwrap();
    assert!(rows.iter().all(|row| row.length == 0 && row.pending == 0), "{rows:?}");
}

#[tokio::test]
async fn entries_deleted_while_pending_stay_gone() {
    let rig = RedisFixture::start().await;
    let key = rig.bells_key();
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1), bell(2)]).await.unwrap();
    let heard = reader.read_deliveries(10, SLICE).await.unwrap();
    rig.command(&["XDEL", &key, &heard[0].entry.id]).await;
    let taken = rig.streams.bells.reclaim_idle(&worker("heir"), Duration::ZERO, 10).await.unwrap();
    assert_eq!(taken.iter().map(|taken| &taken.bell).collect::<Vec<_>>(), [&bell(2)]);
    let pending: u64 = rig.streams.care.lane_stats().await.unwrap().iter().map(|row| row.pending).sum();
    assert_eq!(pending, 1);
}

#[tokio::test]
async fn evicting_server_is_refused() {
    let rig = RedisFixture::start().await;
    for policy in ["allkeys-lru", "volatile-lru"] {
        rig.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
        let outcome = rig.streams.care.check_server().await;
        assert!(matches!(&outcome, Err(StreamError::Unusable(why)) if why.contains(policy)), "{outcome:?}");
    }
    rig.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    assert!(rig.streams.care.check_server().await.unwrap().is_empty());
}

#[tokio::test]
async fn unreadable_settings_cause_check_warning() {
    let rig = RedisFixture::start().await;
    rig.command(&["ACL", "SETUSER", "default", "-config"]).await;
    assert!(rig.streams.care.check_server().await.unwrap().is_empty(), "INFO says it too");
    rig.command(&["ACL", "SETUSER", "default", "-info"]).await;
    let warnings = rig.streams.care.check_server().await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("maxmemory-policy")), "{warnings:?}");
}

#[tokio::test]
async fn full_server_still_acknowledges_entries() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    rig.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let outcome = rig.streams.bells.publish_bells(&[bell(2)]).await;
    assert!(matches!(&outcome, Err(StreamError::Unavailable(why)) if why.contains("OOM")), "{outcome:?}");
    let heard = reader.read_deliveries(10, SLICE).await.unwrap();
    assert_eq!(heard[0].bell, bell(1));
    assert_eq!(rig.streams.bells.reclaim_idle(&worker("heir"), Duration::ZERO, 10).await.unwrap().len(), 1);
    rig.streams.bells.ack_entries(&[heard[0].entry.clone()]).await.unwrap();
    rig.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    rig.streams.bells.publish_bells(&[bell(2)]).await.unwrap();
    assert_eq!(reader.read_deliveries(10, SLICE).await.unwrap()[0].bell, bell(2));
}

#[tokio::test]
async fn full_lane_drops_oldest_doorbells() {
    let rig = RedisFixture::with(RedisOptions { lane_capacity: 500, ..RedisOptions::default() }).await;
    let bells: Vec<_> = (0..5_000).map(bell).collect();
    rig.streams.bells.publish_bells(&bells).await.unwrap();
    let length: u64 = rig.streams.care.lane_stats().await.unwrap().iter().map(|row| row.length).sum();
    assert!((500..1_000).contains(&length), "{length}");
}

#[tokio::test]
async fn overflow_requires_active_worker() {
    let rig = RedisFixture::start().await;
    rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    let length: usize = redis::from_redis_value(rig.command(&["XLEN", &rig.bells_key()]).await).unwrap();
    assert_eq!(length, 1_000);
}

#[tokio::test]
async fn lane_window_overflows_into_list() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    let length: usize = redis::from_redis_value(rig.command(&["XLEN", &rig.bells_key()]).await).unwrap();
    assert_eq!(length, TENANT_WINDOW);
    let row = rig.streams.care.lane_stats().await.unwrap().into_iter().find(|row| row.lag > 0).unwrap();
    assert_eq!(row.overflow, 1_000 - TENANT_WINDOW as u64);
    rig.answer(&mut reader, 1_000).await;
    rig.streams.care.recount_tenants().await.unwrap();
    assert_eq!(rig.window_keys().await, ["millstream:{l14}:bells", "millstream:{l14}:windowed"]);
}

#[tokio::test]
async fn recount_corrects_tenant_counts() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    for (deep, then) in [(Some("9000"), "256"), (Some("-7"), "256"), (None, "256")] {
        match deep {
            Some(wrong) => rig.command(&["HSET", &rig.lane_key("deep"), "default", wrong]).await,
            None => rig.command(&["DEL", &rig.lane_key("deep")]).await,
        };
        rig.streams.care.recount_tenants().await.unwrap();
        let deep: String =
            redis::from_redis_value(rig.command(&["HGET", &rig.lane_key("deep"), "default"]).await).unwrap();
        assert_eq!(deep, then);
    }
    rig.answer(&mut reader, 1_000).await;
}

#[tokio::test]
async fn window_keys_may_be_deleted() {
    for lost in ["deep", "overs", "windowed", "bells"] {
        let rig = RedisFixture::start().await;
        let mut reader = rig.join("w").await;
        rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
        rig.answer(&mut reader, 100).await;
        rig.command(&["DEL", &rig.lane_key(lost)]).await;
        // The stream's entries are lost with it; the sweeps publish them again.
        let left = if lost == "bells" { 1_000 - TENANT_WINDOW } else { 900 };
        rig.streams.bells.publish_bells(&[bell(1_000)]).await.unwrap();
        rig.answer(&mut reader, left + 1).await;
        rig.streams.care.recount_tenants().await.unwrap();
        let rows = rig.streams.care.lane_stats().await.unwrap();
        assert!(rows.iter().all(|row| row.length == 0 && row.pending == 0), "{lost}: {rows:?}");
    }
}

#[tokio::test]
async fn doorbells_queue_behind_overflow() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..300).map(bell).collect::<Vec<_>>()).await.unwrap();
    // The window has free capacity again, and the list has not been moved up yet.
    rig.command(&["HSET", &rig.lane_key("deep"), "default", "0"]).await;
    rig.streams.bells.publish_bells(&[bell(300)]).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 301 {
        let deliveries = reader.read_deliveries(100, Duration::from_millis(200)).await.unwrap();
        heard.extend(deliveries.into_iter().map(|delivery| delivery.bell));
    }
    assert_eq!(heard, (0..301).map(bell).collect::<Vec<_>>());
}

#[tokio::test]
async fn action_doorbells_never_overflow() {
    let rig = RedisFixture::start().await;
    let _reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..300).map(bell).collect::<Vec<_>>()).await.unwrap();
    rig.streams.bells.publish_bells(&[Doorbell::Actions(execution(0))]).await.unwrap();
    let length: usize = redis::from_redis_value(rig.command(&["XLEN", &rig.bells_key()]).await).unwrap();
    assert_eq!(length, TENANT_WINDOW + 1);
}

#[tokio::test]
async fn lost_count_does_not_widen_window() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..200).map(bell).collect::<Vec<_>>()).await.unwrap();
    rig.command(&["DEL", &rig.lane_key("deep")]).await;
    rig.answer(&mut reader, 200).await;
    // The next read subtracts the deliveries from the count.
    assert!(reader.read_deliveries(100, Duration::ZERO).await.unwrap().is_empty());
    rig.streams.bells.publish_bells(&(200..1_200).map(bell).collect::<Vec<_>>()).await.unwrap();
    let length: usize = redis::from_redis_value(rig.command(&["XLEN", &rig.bells_key()]).await).unwrap();
    assert_eq!(length, TENANT_WINDOW);
}

#[tokio::test]
async fn every_read_moves_overflow_up() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    let mut heard = 0;
    while heard < 1_000 {
        let more = reader.read_deliveries(1_000, Duration::ZERO).await.unwrap().len();
        assert!(more > 0, "nothing was there after {heard}");
        heard += more;
    }
}

#[tokio::test]
async fn replenish_wakes_blocked_reader() {
    let rig = RedisFixture::start().await;
    let mut reader = rig.join("w").await;
    let full = FullTenants::default();
    full.replace_all([TenantId::default_tenant()].into());
    reader.skip_full_tenants(&full);
    rig.streams.bells.publish_bells(&(0..1_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    rig.answer(&mut reader, TENANT_WINDOW).await;
    let reading = tokio::spawn(async move { reader.read_deliveries(100, Duration::from_secs(60)).await });
    rig.until_blocked().await;
    rig.streams.bells.replenish_tenants(&full.replace_all([].into())).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(20), reading).await.expect("nothing was moved up");
    assert!(!read.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn full_overflow_drops_oldest_doorbells() {
    let rig = RedisFixture::with(RedisOptions { lane_capacity: 500, ..RedisOptions::default() }).await;
    let _reader = rig.join("w").await;
    rig.streams.bells.publish_bells(&(0..5_000).map(bell).collect::<Vec<_>>()).await.unwrap();
    let overflow: u64 = rig.streams.care.lane_stats().await.unwrap().iter().map(|row| row.overflow).sum();
    assert_eq!(overflow, 500);
}

#[tokio::test]
async fn subscription_recovers_with_server() {
    let mut rig = RedisFixture::start().await;
    let mut listener = rig.streams.announcer.subscribe_all().await.unwrap();
    rig.server.kill();
    rig.server.start_empty().await;
    let news = rig.news(7);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the subscription did not come back");
        rig.streams.announcer.announce_commits(std::slice::from_ref(&news)).await.unwrap();
        if let Ok(heard) = tokio::time::timeout(SLICE, listener.recv()).await {
            assert_eq!(heard.unwrap(), news);
            break;
        }
    }
}

#[tokio::test]
async fn subscription_ends_with_its_owner() {
    let rig = RedisFixture::start().await;
    let mut listener = rig.streams.announcer.subscribe_all().await.unwrap();
    drop(rig.streams);
    let closed = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await.unwrap();
    assert!(matches!(closed, Err(tokio::sync::broadcast::error::RecvError::Closed)), "{closed:?}");
}

#[tokio::test]
async fn absent_server_is_unavailable_soon() {
    let mut rig = RedisFixture::start().await;
    rig.server.kill();
    let started = Instant::now();
    let streams = &rig.streams;
    let joined = streams.bells.open_reader(&worker("w"), &lanes()).await;
    assert!(matches!(joined.err(), Some(StreamError::Unavailable(_))));
    assert!(matches!(streams.bells.publish_bells(&[bell(1)]).await, Err(StreamError::Unavailable(_))));
    assert!(matches!(streams.care.ensure_generation().await, Err(StreamError::Unavailable(_))));
    assert!(matches!(streams.care.check_server().await, Err(StreamError::Unavailable(_))));
    assert!(streams.announcer.subscribe_all().await.is_ok());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn silent_server_is_unavailable_soon() {
    // Accepts connections and never answers, as behind a broken network.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let streams = StreamHandles::from_backend(RedisStream::connect(&url, RedisOptions::default()).unwrap());
    let started = Instant::now();
    assert!(matches!(streams.bells.publish_bells(&[bell(1)]).await, Err(StreamError::Unavailable(_))));
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
}

#[tokio::test]
async fn stopped_server_does_not_block_commands() {
    let rig = RedisFixture::start().await;
    rig.streams.bells.publish_bells(&[bell(1)]).await.unwrap();
    let _paused = rig.pause().await;
    for _ in 0..2 {
        let started = Instant::now();
        assert!(matches!(
            rig.streams.bells.publish_bells(&[bell(2)]).await,
            Err(StreamError::Unavailable(_))
        ));
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    }
}

#[test]
fn invalid_redis_url_is_refused() {
    for url in ["", "http://127.0.0.1/", "redis//x"] {
        let refused = RedisStream::connect(url, RedisOptions::default());
        assert!(matches!(refused, Err(StreamError::Unusable(_))), "{url}");
    }
}

#[test]
fn rediss_url_is_accepted() {
    assert!(RedisStream::connect("rediss://127.0.0.1:6380/", RedisOptions::default()).is_ok());
}
