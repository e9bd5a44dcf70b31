//! Cases of publishing and reading.

use std::time::{Duration, Instant};

use millstream_model::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_model::lane::Lane;
use millstream_stream::doorbell::{Doorbell, RedeliveryMark};

use crate::fixture::{
    PATIENCE, SLICE, StreamFixture, bells, execution, hear, sorted, tenant_of_lane, worker,
};

pub async fn doorbell_before_first_reader_is_delivered(bench: StreamFixture) {
    let rung = bells(3, 5);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let mut expected = rung;
    expected.sort();
    assert_eq!(sorted(&hear(&mut reader, 5).await), expected);
}

pub async fn doorbell_round_trips_unchanged(bench: StreamFixture) {
    let longest = ExecutionKey {
        tenant: TenantId::parse("t".repeat(TenantId::MAX_LEN)).unwrap(),
        execution: ExecutionId::parse("X".repeat(ExecutionId::MAX_LEN)).unwrap(),
    };
    let odd = ExecutionKey {
        tenant: TenantId::parse("a_b.c-d").unwrap(),
        execution: ExecutionId::parse("A:b.c_d-9").unwrap(),
    };
    let mut rung = vec![
        Doorbell::Mailbox(longest.clone()),
        Doorbell::Actions(longest),
        Doorbell::Mailbox(odd.clone()),
        Doorbell::Actions(odd),
    ];
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&rung).await;
    let heard = hear(&mut reader, 4).await;
    rung.sort();
    assert_eq!(sorted(&heard), rung);
    for delivery in heard {
        assert_eq!(delivery.redelivered, RedeliveryMark::First);
        assert_eq!(delivery.entry.lane, delivery.bell.lane());
    }
}

pub async fn entry_goes_to_exactly_one_consumer(bench: StreamFixture) {
    const COUNT: usize = 600;
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..4 {
        let mut reader = bench.join(&worker(&format!("w{n}"))).await;
        let heard = heard.clone();
        tasks.push(tokio::spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            while heard.lock().unwrap().len() < COUNT && Instant::now() < deadline {
                let got = reader.read_deliveries(7, SLICE).await.unwrap();
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

pub async fn reader_receives_only_its_lanes(bench: StreamFixture) {
    let (mine, other) = (tenant_of_lane(2), tenant_of_lane(9));
    let mut reader = bench.streams.bells.open_reader(&worker("w"), &[Lane::of_tenant(&mine)]).await.unwrap();
    bench.ring(&[Doorbell::Mailbox(execution(&other, 1)), Doorbell::Mailbox(execution(&mine, 1))]).await;
    let heard = hear(&mut reader, 1).await;
    assert_eq!(heard[0].bell, Doorbell::Mailbox(execution(&mine, 1)));
    assert!(reader.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn read_respects_per_lane_maximum(bench: StreamFixture) {
    bench.ring(&bells(1, 25)).await;
    bench.ring(&bells(2, 25)).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = reader.read_deliveries(10, SLICE).await.unwrap();
    for lane in [1, 2] {
        assert_eq!(heard.iter().filter(|delivery| delivery.entry.lane.number() == lane).count(), 10);
    }
    assert!(reader.read_deliveries(0, Duration::ZERO).await.unwrap().is_empty(), "none were asked for");
}

pub async fn lane_backlog_hides_no_other_lane(bench: StreamFixture) {
    bench.ring(&bells(4, 2_000)).await;
    let quiet = bells(12, 1);
    bench.ring(&quiet).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = reader.read_deliveries(5, SLICE).await.unwrap();
    assert!(
        heard.iter().any(|delivery| delivery.bell == quiet[0]),
        "the other lane's bell was not in the first read"
    );
}

pub async fn blocked_reader_wakes_on_doorbell(bench: StreamFixture) {
    let mut reader = bench.join(&worker("w")).await;
    // One read first, so that the next one really blocks.
    assert!(reader.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
    let started = Instant::now();
    let task =
        tokio::spawn(async move { reader.read_deliveries(10, Duration::from_secs(25)).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.ring(&bells(6, 1)).await;
    assert_eq!(task.await.unwrap().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(10), "woke only after {:?}", started.elapsed());
}

pub async fn empty_read_ends_with_its_block(bench: StreamFixture) {
    let mut reader = bench.join(&worker("w")).await;
    let started = Instant::now();
    assert!(reader.read_deliveries(10, Duration::from_millis(150)).await.unwrap().is_empty());
    assert!(started.elapsed() >= Duration::from_millis(140), "returned after {:?}", started.elapsed());
}

pub async fn read_without_block_returns_at_once(bench: StreamFixture) {
    let mut reader = bench.join(&worker("w")).await;
    let read = tokio::time::timeout(PATIENCE, reader.read_deliveries(10, Duration::ZERO)).await;
    assert!(read.expect("a read without block must not wait for ever").unwrap().is_empty());
}

pub async fn publishing_no_doorbells_is_harmless(bench: StreamFixture) {
    bench.ring(&[]).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn duplicate_doorbell_in_call_is_coalesced(bench: StreamFixture) {
    let bell = bells(0, 1).remove(0);
    let actions = Doorbell::Actions(bell.execution().clone());
    bench.ring(&[bell.clone(), bell.clone(), actions.clone(), bell.clone()]).await;
    let mut reader = bench.join(&worker("w")).await;
    let mut expected = vec![bell, actions];
    expected.sort();
    assert_eq!(sorted(&hear(&mut reader, 2).await), expected);
    assert!(reader.read_deliveries(10, Duration::ZERO).await.unwrap().is_empty());
}

pub async fn read_doorbell_can_ring_again(bench: StreamFixture) {
    let bell = bells(0, 1);
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&bell).await;
    let first = hear(&mut reader, 1).await;
    // Not acknowledged yet: the reader of the first doorbell may have loaded the execution before this one.
    bench.ring(&bell).await;
    let second = hear(&mut reader, 1).await;
    assert_ne!(first[0].entry, second[0].entry);
    assert_eq!(second[0].redelivered, RedeliveryMark::First);
}

pub async fn large_doorbell_batch_arrives_whole(bench: StreamFixture) {
    let mut rung = bells(8, 9_000);
    bench.ring(&rung).await;
    let mut reader = bench.join(&worker("w")).await;
    let heard = hear(&mut reader, rung.len()).await;
    rung.sort();
    assert_eq!(sorted(&heard), rung);
    bench.ack(&heard).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn reader_without_lanes_receives_nothing(bench: StreamFixture) {
    bench.ring(&bells(0, 1)).await;
    let mut none = bench.streams.bells.open_reader(&worker("none"), &[]).await.unwrap();
    assert!(none.read_deliveries(10, Duration::from_millis(20)).await.unwrap().is_empty());
    let mut reader = bench.join(&worker("w")).await;
    assert_eq!(hear(&mut reader, 1).await.len(), 1);
}
