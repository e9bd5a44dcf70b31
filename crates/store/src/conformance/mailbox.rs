//! Undecided executions: paging for doorbells, and which doorbells to keep.

use std::time::Duration;

use millstream_core::id::ExecutionKey;
use millstream_core::sweep::Band;

use super::Bench;
use super::fixture::{HOUR, execution, execution_of, pausing};
use super::visit::Visit;
use crate::event_log::Append;

async fn undecided(bench: &Bench, bands: Option<&[Band]>) -> Vec<ExecutionKey> {
    bench.stores.events.undecided(bands, None, 100).await.unwrap()
}

pub async fn undecided_pages_name_each_execution_once(bench: Bench) {
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
        let page = bench.stores.events.undecided(None, after.as_ref(), 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(page);
    }
    seen.sort_unstable();
    assert_eq!(seen, keys);
}

pub async fn undecided_in_bands_looks_at_the_time_of_acceptance(bench: Bench) {
    let now = bench.now().await;
    let minute = Duration::from_secs(60);
    let (old, young) = (execution("old"), execution("young"));
    for (key, accepted) in [(&old, now.minus(HOUR)), (&young, now)] {
        bench.start(key).await;
        let event = Append::Event(super::fixture::event(&bench, key, "pay"));
        bench.stores.events.append(&[event], accepted).await.unwrap();
    }
    let around = |time: millstream_core::time::Timestamp| Band { after: time.minus(minute), until: time };
    assert_eq!(undecided(&bench, Some(&[around(now.minus(HOUR))])).await, [old.clone()]);
    assert_eq!(undecided(&bench, Some(&[around(now)])).await, [young.clone()]);
    let both = [around(now), around(now.minus(HOUR))];
    assert_eq!(undecided(&bench, Some(&both)).await, [old, young]);
    let before = Band { after: now.minus(minute), until: now.minus(Duration::from_millis(1)) };
    assert!(undecided(&bench, Some(&[before])).await.is_empty());
    let excluded = Band { after: now, until: now.plus(HOUR) };
    assert!(undecided(&bench, Some(&[excluded])).await.is_empty(), "a band excludes its beginning");
    assert!(undecided(&bench, Some(&[])).await.is_empty());
}

pub async fn what_is_decided_or_deferred_is_not_undecided(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (paid, early) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    assert_eq!(undecided(&bench, None).await, [key.clone()]);
    assert_eq!(bench.stores.events.has_work(std::slice::from_ref(&key)).await.unwrap(), [true]);
    bench.commit_done(Visit::to(&key, &state, bench.now().await).apply(paid, "paid").defer(early)).await;
    assert!(undecided(&bench, None).await.is_empty());
    assert_eq!(bench.stores.events.has_work(&[key]).await.unwrap(), [false]);
}

pub async fn a_paused_execution_has_no_work_but_its_cancellation(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    bench.post(&key, "pay").await;
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause(&pause, bench.now().await).await.unwrap();
    assert!(undecided(&bench, None).await.is_empty());
    assert_eq!(bench.stores.events.has_work(std::slice::from_ref(&key)).await.unwrap(), [false]);
    bench.post(&key, "millstream.cancel").await;
    assert_eq!(undecided(&bench, None).await, [key.clone()]);
    assert_eq!(bench.stores.events.has_work(&[key]).await.unwrap(), [true]);
}

pub async fn has_work_answers_in_the_order_asked(bench: Bench) {
    let (busy, idle) = (execution("busy"), execution("idle"));
    bench.start(&busy).await;
    bench.start(&idle).await;
    bench.post(&busy, "pay").await;
    let asked = [idle.clone(), execution("none"), busy.clone(), execution_of("rival", "busy"), busy];
    assert_eq!(bench.stores.events.has_work(&asked).await.unwrap(), [false, false, true, false, true]);
}
