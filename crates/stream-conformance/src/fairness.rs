//! Cases of fairness: tenants that share a lane do not wait for each other's backlog.

use std::time::{Duration, Instant};

use millstream_model::id::TenantId;
use millstream_model::lane::Lane;
use millstream_stream::doorbell::{Doorbell, DoorbellDelivery, DoorbellReader, FullTenants, TENANT_WINDOW};

use crate::fixture::{PATIENCE, SLICE, StreamFixture, execution, hear, sorted, worker};

/// Far more than a lane offers of one tenant.
const BACKLOG: usize = 4 * TENANT_WINDOW;

/// Two tenants of one lane.
fn neighbours() -> (TenantId, TenantId) {
    let busy = TenantId::parse("busy").unwrap();
    let quiet = (0..)
        .map(|i| TenantId::parse(format!("quiet-{i}")).unwrap())
        .find(|tenant| Lane::of_tenant(tenant) == Lane::of_tenant(&busy))
        .unwrap();
    (busy, quiet)
}

fn bells_of(tenant: &TenantId, count: usize) -> Vec<Doorbell> {
    (0..count).map(|n| Doorbell::Mailbox(execution(tenant, n))).collect()
}

/// Reads until a doorbell of this tenant arrives; returns everything read.
async fn hear_until(reader: &mut Box<dyn DoorbellReader>, tenant: &TenantId) -> Vec<DoorbellDelivery> {
    let deadline = Instant::now() + PATIENCE;
    let mut heard: Vec<DoorbellDelivery> = Vec::new();
    while heard.iter().all(|delivery| delivery.bell.execution().tenant != *tenant) {
        assert!(Instant::now() < deadline, "{} came", heard.len());
        heard.extend(reader.read_deliveries(100, SLICE).await.unwrap());
    }
    heard
}

pub async fn tenant_backlog_does_not_delay_others(bench: StreamFixture) {
    let (busy, quiet) = neighbours();
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    bench.ring(&bells_of(&quiet, 1)).await;
    let heard = hear_until(&mut reader, &quiet).await;
    assert!(heard.len() <= TENANT_WINDOW + 100, "{} came first", heard.len());
    hear(&mut reader, BACKLOG + 1 - heard.len()).await;
}

pub async fn tenant_backlog_arrives_in_order(bench: StreamFixture) {
    let (busy, _) = neighbours();
    let mut reader = bench.join(&worker("w")).await;
    let rung = bells_of(&busy, BACKLOG);
    for part in rung.chunks(100) {
        bench.ring(part).await;
    }
    let heard = hear(&mut reader, BACKLOG).await;
    assert_eq!(heard.iter().map(|delivery| delivery.bell.clone()).collect::<Vec<_>>(), rung);
    bench.ack(&heard).await;
    assert_eq!(bench.length().await, 0);
}

pub async fn lane_stats_count_whole_backlog(bench: StreamFixture) {
    let (busy, _) = neighbours();
    let _reader = bench.join(&worker("w")).await;
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    let rows = bench.streams.care.lane_stats().await.unwrap();
    let row = rows.iter().find(|row| row.lane == Lane::of_tenant(&busy)).unwrap();
    assert_eq!((row.length, row.pending, row.lag), (BACKLOG as u64, 0, BACKLOG as u64));
    assert!(row.overflow <= row.lag);
}

pub async fn full_tenant_overflow_waits_for_replenish(bench: StreamFixture) {
    let (busy, quiet) = neighbours();
    let full = FullTenants::default();
    full.replace_all([busy.clone()].into());
    let mut reader = bench.join(&worker("w")).await;
    reader.skip_full_tenants(&full);
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    let mut heard = Vec::new();
    loop {
        let more = reader.read_deliveries(1_000, SLICE).await.unwrap();
        if more.is_empty() {
            break;
        }
        heard.extend(more);
    }
    assert!(heard.len() <= TENANT_WINDOW, "{} came", heard.len());
    bench.ring(&bells_of(&quiet, 1)).await;
    assert_eq!(sorted(&hear(&mut reader, 1).await), bells_of(&quiet, 1));
    let wanted = full.replace_all([].into());
    assert_eq!(wanted, [busy]);
    bench.streams.bells.replenish_tenants(&wanted).await.unwrap();
    heard.extend(hear(&mut reader, BACKLOG - heard.len()).await);
    assert_eq!(heard.len(), BACKLOG);
}

pub async fn idle_reader_finds_left_overflow(bench: StreamFixture) {
    let (busy, _) = neighbours();
    let full = FullTenants::default();
    full.replace_all([busy.clone()].into());
    let mut reader = bench.join(&worker("w")).await;
    reader.skip_full_tenants(&full);
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    let mut heard = 0;
    loop {
        let more = reader.read_deliveries(1_000, SLICE).await.unwrap();
        if more.is_empty() {
            break;
        }
        heard += more.len();
    }
    // No consumer requests more: the reader itself must look.
    full.replace_all([].into());
    hear(&mut reader, BACKLOG - heard).await;
}

pub async fn another_reader_takes_left_overflow(bench: StreamFixture) {
    let (busy, _) = neighbours();
    let full = FullTenants::default();
    let mut first = bench.join(&worker("w1")).await;
    first.skip_full_tenants(&full);
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    full.replace_all([busy.clone()].into());
    let taken = first.read_deliveries(TENANT_WINDOW, Duration::ZERO).await.unwrap().len();
    drop(first);
    // The reader did not report its deliveries.
    bench.streams.care.recount_tenants().await.unwrap();
    let mut second = bench.join(&worker("w2")).await;
    hear(&mut second, BACKLOG - taken).await;
}

pub async fn recount_keeps_correct_counts(bench: StreamFixture) {
    let (busy, quiet) = neighbours();
    let mut reader = bench.join(&worker("w")).await;
    bench.ring(&bells_of(&busy, BACKLOG)).await;
    bench.streams.care.recount_tenants().await.unwrap();
    bench.ring(&bells_of(&quiet, 1)).await;
    let heard = hear_until(&mut reader, &quiet).await;
    assert!(heard.len() <= TENANT_WINDOW + 100, "{} came first", heard.len());
    bench.streams.care.recount_tenants().await.unwrap();
    hear(&mut reader, BACKLOG + 1 - heard.len()).await;
}
