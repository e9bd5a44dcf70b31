//! Cases of publishing and reading.

use std::time::{Duration, Instant};

use millstream_core::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_core::lane::Lane;

use super::bench::{Bench, PATIENCE, SLICE, bells, execution, hear, sorted, tenant_of_lane, worker};
use crate::doorbell::{Bell, Redelivered};

pub async fn a_bell_rung_before_anybody_joined_is_read(bench: Bench) {
    let rung = bells(3, 5);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let mut expected = rung;
    expected.sort();
    assert_eq!(sorted(&hear(&mut reader, 5).await), expected);
}

pub async fn a_bell_comes_back_as_it_was_rung(bench: Bench) {
    let longest = ExecutionKey {
        tenant: TenantId::parse("t".repeat(TenantId::MAX_LEN)).unwrap(),
        execution: ExecutionId::parse("X".repeat(ExecutionId::MAX_LEN)).unwrap(),
    };
    let odd = ExecutionKey {
        tenant: TenantId::parse("a_b.c-d").unwrap(),
        execution: ExecutionId::parse("A:b.c_d-9").unwrap(),
    };
    let mut rung = vec![
        Bell::Mailbox(longest.clone()),
        Bell::Actions(longest),
        Bell::Mailbox(odd.clone()),
        Bell::Actions(odd),
    ];
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&rung).await;
    let heard = hear(&mut reader, 4).await;
    rung.sort();
    assert_eq!(sorted(&heard), rung);
    for delivery in heard {
        assert_eq!(delivery.redelivered, Redelivered::First);
        assert_eq!(delivery.entry.lane, delivery.bell.lane());
    }
}

pub async fn each_entry_goes_to_exactly_one_consumer(bench: Bench) {
    const COUNT: usize = 600;
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..4 {
        let mut reader = bench.join(&worker(&format!("w{n}"))).await;
        let heard = heard.clone();
        tasks.push(tokio::spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            while heard.lock().unwrap().len() < COUNT && Instant::now() < deadline {
                let got = reader.read(7, SLICE).await.unwrap();
                heard.lock().unwrap().extend(got);
            }
        }));
    }
    let mut rung = Vec::new();
    for lane in [0, 5, 11] {
        rung.extend(bells(lane, COUNT / 3));
    }
    for chunk in rung.chunks(50) {
        bench.ring(chunk).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    rung.sort();
    assert_eq!(sorted(&heard.lock().unwrap()), rung);
}

pub async fn a_reader_hears_only_its_lanes(bench: Bench) {
    let (mine, other) = (tenant_of_lane(2), tenant_of_lane(9));
    let mut reader = bench.streams.bells.reader(&worker("w"), &[Lane::of(&mine)]).await.unwrap();
    bench.ring(&[Bell::Mailbox(execution(&other, 1)), Bell::Mailbox(execution(&mine, 1))]).await;
    let heard = hear(&mut reader, 1).await;
    assert_eq!(heard[0].bell, Bell::Mailbox(execution(&mine, 1)));
    assert!(reader.read(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn one_read_takes_no_more_than_asked_from_a_lane(bench: Bench) {
    bench.ring(&bells(1, 25)).await;
    bench.ring(&bells(2, 25)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = reader.read(10, SLICE).await.unwrap();
    for lane in [1, 2] {
        assert_eq!(heard.iter().filter(|delivery| delivery.entry.lane.number() == lane).count(), 10);
    }
    assert!(reader.read(0, Duration::ZERO).await.unwrap().is_empty(), "none were asked for");
}

pub async fn a_backlog_in_one_lane_does_not_hide_another(bench: Bench) {
    bench.ring(&bells(4, 2_000)).await;
    let quiet = bells(12, 1);
    bench.ring(&quiet).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = reader.read(5, SLICE).await.unwrap();
    assert!(
        heard.iter().any(|delivery| delivery.bell == quiet[0]),
        "the other lane's bell was not in the first read"
    );
}

pub async fn a_blocked_reader_wakes_when_a_bell_rings(bench: Bench) {
    let mut reader = bench.join(&worker("w")).await;
    // One read first, so that the next one really blocks.
    assert!(reader.read(10, Duration::ZERO).await.unwrap().is_empty());
    let started = Instant::now();
    let task = tokio::spawn(async move { reader.read(10, Duration::from_secs(25)).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.ring(&bells(6, 1)).await;
    assert_eq!(task.await.unwrap().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(10), "woke only after {:?}", started.elapsed());
}

pub async fn a_read_that_finds_nothing_ends_with_its_block(bench: Bench) {
    let mut reader = bench.join(&worker("w")).await;
    let started = Instant::now();
    assert!(reader.read(10, Duration::from_millis(150)).await.unwrap().is_empty());
    assert!(started.elapsed() >= Duration::from_millis(140), "returned after {:?}", started.elapsed());
}

pub async fn a_read_without_block_returns_at_once(bench: Bench) {
    let mut reader = bench.join(&worker("w")).await;
    let read = tokio::time::timeout(PATIENCE, reader.read(10, Duration::ZERO)).await;
    assert!(read.expect("a read without block must not wait for ever").unwrap().is_empty());
}

pub async fn ringing_nothing_is_nothing(bench: Bench) {
    bench.ring(&[]).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn one_bell_twice_in_a_call_is_one_entry(bench: Bench) {
    let bell = bells(0, 1).remove(0);
    let actions = Bell::Actions(bell.execution().clone());
    bench.ring(&[bell.clone(), bell.clone(), actions.clone(), bell.clone()]).await;
    let mut reader = bench.join(&worker("w")).await;
    let mut expected = vec![bell, actions];
    expected.sort();
    assert_eq!(sorted(&hear(&mut reader, 2).await), expected);
    assert!(reader.read(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn a_bell_rung_after_it_was_read_is_heard_again(bench: Bench) {
    let bell = bells(0, 1);
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&bell).await;
    let first = hear(&mut reader, 1).await;
    // Not acknowledged yet: the reader of the first doorbell may have loaded the execution before this one.
    bench.ring(&bell).await;
    let second = hear(&mut reader, 1).await;
    assert_ne!(first[0].entry, second[0].entry);
    assert_eq!(second[0].redelivered, Redelivered::First);
}

pub async fn a_large_batch_arrives_whole(bench: Bench) {
    let mut rung = bells(8, 9_000);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, rung.len()).await;
    rung.sort();
    assert_eq!(sorted(&heard), rung);
    bench.ack(&heard).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn a_reader_of_no_lanes_hears_nothing(bench: Bench) {
    bench.ring(&bells(0, 1)).await;
    let mut none = bench.streams.bells.reader(&worker("none"), &[]).await.unwrap();
    assert!(none.read(10, Duration::from_millis(20)).await.unwrap().is_empty());
    let mut reader = bench.join(&worker("w")).await;
    assert_eq!(hear(&mut reader, 1).await.len(), 1);
}
