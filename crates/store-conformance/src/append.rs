//! Accepting: order, refusals, starts.

use std::collections::BTreeSet;

use millstream_model::id::{AcceptNo, Seq};
use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_store::event_log::{AppendRequest, Appended, EventSubmission};

use crate::ConformanceBench;
use crate::fixture::{
    HOUR, armed_execution, event, execution, execution_of, keyed, name, new_execution, order, raw, timer,
};

fn accept_nos(verdicts: &[Appended]) -> Vec<AcceptNo> {
    verdicts
        .iter()
        .map(|verdict| match verdict {
            Appended::Accepted { accept_no } => *accept_no,
            other @ (Appended::Repeat { .. }
            | Appended::Delivered { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. }
            | Appended::Mismatch
            | Appended::NoExecution) => panic!("not accepted: {other:?}"),
        })
        .collect()
}

pub async fn accept_no_follows_batch_order(bench: ConformanceBench) {
    let (one, two) = (execution("one"), execution("two"));
    bench.start(&one).await;
    bench.start(&two).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let batch: Vec<AppendRequest> = (0..40)
            .map(|n| AppendRequest::Event(event(&bench, if n % 3 == 0 { &two } else { &one }, "pay")))
            .collect();
        seen.extend(accept_nos(&bench.append(&batch).await));
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    let mailbox = bench.load(&one, None).await.mailbox;
    assert_eq!(mailbox.len(), 78);
    assert!(mailbox.is_sorted_by(|a, b| a.accept_no < b.accept_no));
}

pub async fn accepted_event_is_pending_and_unchanged(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let text = r#"{"a":"\u0000", "n":1.50,"é":"😀"}"#;
    let sent = EventSubmission {
        payload: raw(text),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        ..event(&bench, &key, "pay")
    };
    bench.append_event(&sent).await;
    let view = bench.event(&key, sent.event_id).await;
    assert_eq!(view.payload.as_str(), text);
    assert_eq!((view.status, view.attempts, view.seq), (EventStatus::Pending, 0, None));
    assert_eq!((view.name, view.execution), (name("pay"), key.clone()));
    assert_eq!(view.actor.as_deref(), Some("tester"));
    assert_eq!((view.started_at, view.completed_at, view.worker_id), (None, None, None));
    let waiting = bench.load(&key, None).await.mailbox.remove(0);
    assert_eq!(waiting.payload.as_str(), text);
    assert_eq!(waiting.traceparent, sent.traceparent);
    assert_eq!(waiting.accept_no, view.accept_no);
    assert_eq!(waiting.accepted_at, view.created_at);
}

pub async fn refused_item_leaves_no_trace(bench: ConformanceBench) {
    let (here, nowhere) = (execution("here"), execution("nowhere"));
    bench.start(&here).await;
    let good = event(&bench, &here, "pay");
    let lost = event(&bench, &nowhere, "pay");
    let last = event(&bench, &here, "ship");
    let batch = [good.clone(), lost.clone(), last.clone()].map(AppendRequest::Event);
    let verdicts = bench.append(&batch).await;
    assert_eq!(verdicts[1], Appended::NoExecution);
    assert!(matches!(verdicts[0], Appended::Accepted { .. }));
    assert!(matches!(verdicts[2], Appended::Accepted { .. }));
    assert_eq!(bench.mailbox(&here).await, [good.event_id, last.event_id]);
    let views =
        bench.stores.event_views.find_events(&[(lost.execution.tenant, lost.event_id)]).await.unwrap();
    assert!(views[0].is_none());
}

pub async fn refused_item_consumes_no_key(bench: ConformanceBench) {
    let key = execution("late");
    let refused = keyed(event(&bench, &key, "pay"), "k", 1);
    assert_eq!(bench.append_event(&refused).await, Appended::NoExecution);
    bench.start(&key).await;
    let again = keyed(event(&bench, &key, "pay"), "k", 1);
    assert!(matches!(bench.append_event(&again).await, Appended::Accepted { .. }));
}

pub async fn refused_item_consumes_no_key_within_batch(bench: ConformanceBench) {
    let (here, nowhere) = (execution("here"), execution("nowhere"));
    bench.start(&here).await;
    let refused = keyed(event(&bench, &nowhere, "pay"), "k", 1);
    let good = keyed(event(&bench, &here, "pay"), "k", 2);
    let verdicts = bench.append(&[refused, good.clone()].map(AppendRequest::Event)).await;
    assert_eq!(verdicts[0], Appended::NoExecution);
    assert!(matches!(verdicts[1], Appended::Accepted { .. }), "{verdicts:?}");
    assert_eq!(bench.mailbox(&here).await, [good.event_id]);
}

pub async fn append_refuses_execution_of_other_tenant(bench: ConformanceBench) {
    bench.start(&execution_of("acme", "one")).await;
    let foreign = event(&bench, &execution_of("rival", "one"), "pay");
    assert_eq!(bench.append_event(&foreign).await, Appended::NoExecution);
    assert!(bench.mailbox(&execution_of("acme", "one")).await.is_empty());
}

pub async fn empty_append_is_accepted(bench: ConformanceBench) {
    assert_eq!(bench.append(&[]).await, []);
    assert!(bench.stores.events.find_definitions(&[]).await.unwrap().is_empty());
    assert!(bench.stores.events.has_work(&[]).await.unwrap().is_empty());
}

pub async fn start_is_completed_as_seq_one(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let new = new_execution(&bench, &key, now);
    let verdict = bench.append_one(AppendRequest::Start(Box::new(new.clone()))).await;
    let view = bench.execution(&key).await;
    assert_eq!(verdict, Appended::Accepted { accept_no: view.position });
    assert_eq!((view.status, view.definition), (ExecutionStatus::Active, order()));
    assert_eq!(view.state, new.state);
    let start = bench.event(&key, new.start.event_id).await;
    assert_eq!((start.status, start.seq), (EventStatus::Completed, Some(Seq::FIRST)));
    assert_eq!((start.from_state, start.to_state), (None, Some(name("received"))));
    assert_eq!(start.payload.as_str(), r#"{"total":12.50}"#);
    assert!(start.started_at.is_some() && start.completed_at.is_some());
    let history = bench.stores.execution_views.read_history(&key, Seq(0), 10).await.unwrap().entries;
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].transition, new.applied.transition);
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn execution_dates_from_first_transition(bench: ConformanceBench) {
    let key = execution("one");
    // The time of the decision; the append comes later, by the time spent in the queue.
    let at = bench.now().await.minus(crate::fixture::HOUR);
    let new = new_execution(&bench, &key, at);
    let start = new.start.event_id;
    bench.start_as(new).await;
    let view = bench.execution(&key).await;
    assert_eq!((view.created_at, view.updated_at, view.state.at), (at, at, at));
    let event = bench.event(&key, start).await;
    assert_eq!((event.created_at, event.started_at, event.completed_at), (at, Some(at), Some(at)));
    let history =
        bench.stores.execution_views.read_history(&key, millstream_model::id::Seq(0), 1).await.unwrap();
    assert_eq!(history.entries[0].transition.at, at);
}

pub async fn start_appends_its_events(bench: ConformanceBench) {
    let key = execution("one");
    let mut new = new_execution(&bench, &key, bench.now().await);
    new.events = vec![event(&bench, &key, "pay"), event(&bench, &key, "ship")];
    let expected: Vec<_> = new.events.iter().map(|event| event.event_id).collect();
    let next = event(&bench, &key, "close");
    let verdicts =
        bench.append(&[AppendRequest::Start(Box::new(new)), AppendRequest::Event(next.clone())]).await;
    let nos = accept_nos(&verdicts);
    let mailbox = bench.load(&key, None).await.mailbox;
    let found: Vec<_> = mailbox.iter().map(|waiting| waiting.event_id).collect();
    assert_eq!(found, [expected, vec![next.event_id]].concat());
    assert_eq!(mailbox[2].accept_no, nos[1]);
    assert!(nos[0] < mailbox[0].accept_no, "the start comes before its events");
}

pub async fn start_arms_its_timers(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let timers =
        vec![timer(Seq::FIRST, 0, now.plus(HOUR * 2), "expire"), timer(Seq(0), 0, now.plus(HOUR), "late")];
    bench.start_as(armed_execution(&bench, &key, timers, now)).await;
    assert_eq!(bench.timers(&key).await, ["late", "expire"]);
}

pub async fn concurrent_appends_share_no_accept_no(bench: ConformanceBench) {
    let keys: Vec<_> = (0..4).map(|n| execution(&format!("e{n}"))).collect();
    for key in &keys {
        bench.start(key).await;
    }
    let tasks: Vec<_> = (0..24)
        .map(|n| {
            let bench = bench.clone();
            // Crossed orders of executions and keys: a store that locks in batch order deadlocks.
            let mut order: Vec<_> = keys.iter().enumerate().cycle().skip(n % 4).take(8).collect();
            if n % 2 == 0 {
                order.reverse();
            }
            let batch: Vec<AppendRequest> = order
                .into_iter()
                .enumerate()
                .map(|(at, (e, key))| keyed(event(&bench, key, "pay"), &format!("{n}-{at}-{e}"), 1))
                .map(AppendRequest::Event)
                .collect();
            tokio::spawn(async move { accept_nos(&bench.append(&batch).await) })
        })
        .collect();
    let mut all = BTreeSet::new();
    for task in tasks {
        let nos = task.await.unwrap();
        assert!(nos.is_sorted_by(|a, b| a < b), "{nos:?}");
        all.extend(nos);
    }
    assert_eq!(all.len(), 24 * 8);
    for key in &keys {
        assert_eq!(bench.mailbox(key).await.len(), 48);
    }
}

pub async fn targets_return_execution_definitions(bench: ConformanceBench) {
    bench.start(&execution("one")).await;
    let asked = [execution("none"), execution("one"), execution_of("rival", "one")];
    assert_eq!(bench.stores.events.find_definitions(&asked).await.unwrap(), [None, Some(order()), None]);
}
