//! Undecided executions: paging for doorbells, and which doorbells to keep.

use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_model::overdue_sweep::SweepBand;
use millstream_store::event_log::AppendRequest;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{HOUR, execution, execution_of, pausing};

async fn undecided(bench: &ConformanceBench, bands: Option<&[SweepBand]>) -> Vec<ExecutionKey> {
    bench.stores.events.page_undecided(bands, None, 100).await.unwrap()
}

pub async fn undecided_pages_name_execution_once(bench: ConformanceBench) {
    let mut keys: Vec<_> = (0..7).map(|n| execution(&format!("e{n}"))).collect();
    keys.push(execution_of("rival", "a"));
    for key in &keys {
        bench.start(key).await;
        bench.post(key, "pay").await;
        bench.post(key, "ship").await;
    }
    bench.start(&execution("idle")).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bench.stores.events.page_undecided(None, after.as_ref(), 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(page);
    }
    seen.sort_unstable();
    assert_eq!(seen, keys);
}

pub async fn undecided_bands_filter_by_acceptance_time(bench: ConformanceBench) {
    let now = bench.now().await;
    let minute = Duration::from_secs(60);
    let (old, young) = (execution("old"), execution("young"));
    for (key, accepted) in [(&old, now.minus(HOUR)), (&young, now)] {
        bench.start(key).await;
        let event = AppendRequest::Event(crate::fixture::event(&bench, key, "pay"));
        bench.stores.events.append(&[event], accepted).await.unwrap();
    }
    let around =
        |time: millstream_model::time::Timestamp| SweepBand { after: time.minus(minute), until: time };
    assert_eq!(undecided(&bench, Some(&[around(now.minus(HOUR))])).await, [old.clone()]);
    assert_eq!(undecided(&bench, Some(&[around(now)])).await, [young.clone()]);
    let both = [around(now), around(now.minus(HOUR))];
    assert_eq!(undecided(&bench, Some(&both)).await, [old, young]);
    let before = SweepBand { after: now.minus(minute), until: now.minus(Duration::from_millis(1)) };
    assert!(undecided(&bench, Some(&[before])).await.is_empty());
    let excluded = SweepBand { after: now, until: now.plus(HOUR) };
    assert!(undecided(&bench, Some(&[excluded])).await.is_empty(), "a band excludes its beginning");
    assert!(undecided(&bench, Some(&[])).await.is_empty());
}

pub async fn decided_or_deferred_event_is_not_undecided(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (paid, early) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    assert_eq!(undecided(&bench, None).await, [key.clone()]);
    assert_eq!(bench.stores.events.has_work(std::slice::from_ref(&key)).await.unwrap(), [true]);
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(paid, "paid").defer(early))
        .await;
    assert!(undecided(&bench, None).await.is_empty());
    assert_eq!(bench.stores.events.has_work(&[key]).await.unwrap(), [false]);
}

pub async fn paused_execution_has_only_cancellation_work(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    bench.post(&key, "pay").await;
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause_executions(&pause, bench.now().await).await.unwrap();
    assert!(undecided(&bench, None).await.is_empty());
    assert_eq!(bench.stores.events.has_work(std::slice::from_ref(&key)).await.unwrap(), [false]);
    bench.post(&key, "millstream.cancel").await;
    assert_eq!(undecided(&bench, None).await, [key.clone()]);
    assert_eq!(bench.stores.events.has_work(&[key]).await.unwrap(), [true]);
}

pub async fn has_work_keeps_requested_order(bench: ConformanceBench) {
    let (busy, idle) = (execution("busy"), execution("idle"));
    bench.start(&busy).await;
    bench.start(&idle).await;
    bench.post(&busy, "pay").await;
    let asked = [idle.clone(), execution("none"), busy.clone(), execution_of("rival", "busy"), busy];
    assert_eq!(bench.stores.events.has_work(&asked).await.unwrap(), [false, false, true, false, true]);
}
