//! Views of events: single ones, lists, the backlog.

use millstream_model::id::EventId;
use millstream_model::status::EventStatus;
use millstream_store::event_log::AppendRequest;
use millstream_store::views::{EventBacklog, EventFilter};

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready};
use crate::fixture::{burial, event, execution, execution_of, grant, tenant};

async fn list(bench: &ConformanceBench, filter: &EventFilter) -> Vec<EventId> {
    let page = bench.stores.event_views.list_events(&tenant("acme"), filter, None, 100).await.unwrap();
    page.into_iter().map(|view| view.event_id).collect()
}

pub async fn events_are_found_in_requested_order(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (one, two) = (bench.post(&key, "a").await, bench.post(&key, "b").await);
    let asked = [two, bench.event_id(), one].map(|id| (tenant("acme"), id));
    let found = bench.stores.event_views.find_events(&asked).await.unwrap();
    let ids: Vec<_> = found.into_iter().map(|view| view.map(|view| view.event_id)).collect();
    assert_eq!(ids, [Some(two), None, Some(one)]);
}

pub async fn event_of_other_tenant_is_missing(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    bench.start(&execution_of("rival", "one")).await;
    let id = bench.post(&key, "a").await;
    let views = &bench.stores.event_views;
    assert!(views.find_events(&[(tenant("rival"), id)]).await.unwrap()[0].is_none());
    let filter = EventFilter { execution: Some(key.execution), status: Some(EventStatus::Pending) };
    assert!(views.list_events(&tenant("rival"), &filter, None, 10).await.unwrap().is_empty());
}

pub async fn events_are_listed_in_acceptance_order(bench: ConformanceBench) {
    let keys = [execution("b"), execution("a")];
    let mut expected = Vec::new();
    for key in &keys {
        bench.start(key).await;
    }
    for n in 0..6 {
        expected.push(bench.post(&keys[n % 2], "go").await);
    }
    let filter = EventFilter { status: Some(EventStatus::Pending), ..Default::default() };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let views = &bench.stores.event_views;
        let page = views.list_events(&tenant("acme"), &filter, after, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.accept_no);
        seen.extend(page.into_iter().map(|view| view.event_id));
    }
    assert_eq!(seen, expected);
}

pub async fn events_are_filtered_by_execution_and_status(bench: ConformanceBench) {
    let (one, two) = (execution("one"), execution("two"));
    let state = bench.start(&one).await;
    bench.start(&two).await;
    let (done, open) = (bench.post(&one, "a").await, bench.post(&one, "b").await);
    let other = bench.post(&two, "a").await;
    bench.commit_done(ConformanceVisit::to(&one, &state, bench.now().await).reject(done, "no")).await;
    let pending = EventFilter { status: Some(EventStatus::Pending), ..Default::default() };
    assert_eq!(list(&bench, &pending).await, [open, other]);
    let of_one = EventFilter { execution: Some(one.execution.clone()), ..Default::default() };
    assert_eq!(list(&bench, &of_one).await.len(), 3);
    let both = EventFilter { execution: Some(one.execution), status: Some(EventStatus::Rejected) };
    assert_eq!(list(&bench, &both).await, [done]);
}

pub async fn backlog_counts_undecided_work(bench: ConformanceBench) {
    let views = &bench.stores.event_views;
    assert_eq!(views.count_backlog().await.unwrap(), EventBacklog::default());
    let now = bench.now().await;
    let (key, other) = (execution("one"), execution_of("rival", "one"));
    let (_, state, _) = bench.acting(&key, &[ready("a"), ready("b")], grant(1)).await;
    bench.start(&other).await;
    let deferred = bench.post(&key, "later").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, now).defer(deferred)).await;
    let hour_ago = now.minus(crate::fixture::HOUR);
    let old = AppendRequest::Event(event(&bench, &other, "x"));
    bench.stores.events.append(&[old], hour_ago).await.unwrap();
    bench.post(&key, "y").await;
    let dead = bench.post(&other, "z").await;
    let buried = burial(other, dead, "no");
    bench.stores.interventions.bury_events(&[buried], now).await.unwrap();
    let expected = EventBacklog {
        undecided: 2,
        oldest: Some(hour_ago),
        dead: 1,
        paused: 1,
        incidents: 1,
        open_actions: 2,
    };
    assert_eq!(views.count_backlog().await.unwrap(), expected);
}
