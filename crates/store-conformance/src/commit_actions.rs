//! Actions that come with a commit: leased on the spot, settled inline, cancelled.

use millstream_model::id::{Epoch, Seq};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::CommitVerdict;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, done, inline, ready, ready_after, waiting};
use crate::fixture::{HOUR, event, execution, grant, name, order, raw, worker};
use crate::settle::{retry, settle, succeed};

pub async fn commit_leases_ready_actions_within_slots(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("zeta"), waiting("mid", &["zeta"]), ready("alpha"), ready("beta")];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let leased: Vec<_> = done.leased.iter().map(|action| action.lease.key.action.as_str()).collect();
    assert_eq!((leased, done.unleased), (vec!["zeta", "alpha"], 1));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
    assert_eq!(bench.event(&key, id).await.completed_at, None);

    let views = bench.actions(&key).await;
    let statuses: Vec<_> = views.iter().map(|view| (view.key.action.as_str(), view.status)).collect();
    let (leased, waiting, ready) = (ActionStatus::Leased, ActionStatus::Waiting, ActionStatus::Ready);
    assert_eq!(statuses, [("zeta", leased), ("mid", waiting), ("alpha", leased), ("beta", ready)]);
    let zeta = &views[0];
    assert_eq!((zeta.epoch, zeta.attempts, zeta.ordinal), (Epoch::FIRST, 1, 0));
    assert_eq!((zeta.worker_id.clone(), zeta.event_id, zeta.key.seq), (Some(worker("w1")), id, Seq(2)));
    assert_eq!(zeta.lease_until, Some(done.leased[0].lease_until));
    let beta = &views[3];
    assert_eq!((beta.epoch, beta.attempts, beta.worker_id.clone()), (Epoch::NONE, 0, None));
    assert!(beta.next_attempt_at.is_some() && beta.lease_until.is_none());
    assert_eq!(views[1].needs, [name("zeta")]);
}

pub async fn leased_action_carries_everything_to_perform(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    let sent = EventSubmission { traceparent: traceparent.clone(), ..event(&bench, &key, "go") };
    bench.append_event(&sent).await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .act(sent.event_id, "working", &[inline("note"), ready_after("charge", &["note"])])
        .tracing(traceparent.as_deref().unwrap());
    let done = done(bench.commit(vec![visit], grant(4)).await.remove(0));
    let [charge] = &done.leased[..] else { panic!("{:?}", done.leased) };
    assert_eq!(charge.lease.key.to_string(), "acme/one/2/charge");
    assert_eq!((charge.lease.epoch, charge.attempt), (Epoch::FIRST, 1));
    assert_eq!((charge.event_id, charge.definition.clone()), (sent.event_id, order()));
    assert_eq!(charge.input, Some(raw(r#"{"noop":  1.50}"#)));
    assert_eq!(charge.scope, None);
    assert_eq!(charge.results, [(name("note"), raw(r#""inline""#))].into());
    assert_eq!(charge.traceparent, traceparent);
    assert!(charge.lease_until > now);
}

pub async fn conflicts_use_no_slots_of_batch(bench: ConformanceBench) {
    let mut visits = Vec::new();
    for id in ["lost", "a", "b"] {
        let key = execution(id);
        let state = bench.start(&key).await;
        let event = bench.post(&key, "go").await;
        let actions = [ready("one"), ready("two")];
        visits.push(ConformanceVisit::to(&key, &state, bench.now().await).act(event, "working", &actions));
    }
    visits[0] = visits[0].clone().expecting(Seq(7));
    let mut verdicts = bench.commit(visits, grant(3)).await.into_iter();
    assert!(matches!(verdicts.next(), Some(CommitVerdict::Conflict)));
    let [a, b] = [verdicts.next().unwrap(), verdicts.next().unwrap()].map(done);
    assert_eq!((a.leased.len(), a.unleased, b.leased.len(), b.unleased), (2, 0, 1, 1));
    assert_eq!(b.leased[0].lease.key.action, name("one"));
}

pub async fn inline_settled_actions_are_recorded(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[inline("note")], grant(4)).await;
    assert_eq!((done.leased.len(), done.unleased), (0, 0));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    let note = bench.action(&key, "note").await;
    assert_eq!((note.status, note.result), (ActionStatus::Succeeded, Some(raw(r#""inline""#))));
    assert!(note.settled_at.is_some());
    assert!(
        bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap().is_empty()
    );
}

pub async fn unleased_actions_are_due_immediately(bench: ConformanceBench) {
    let key = execution("one");
    bench.acting(&key, &[ready("a"), ready("b")], grant(0)).await;
    let leased = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(leased.len(), 2);
    assert!(leased.iter().all(|action| action.lease.epoch == Epoch::FIRST && action.attempt == 1));
}

pub async fn cancellation_cancels_unleased_actions(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("held"), waiting("after", &["held"]), ready("idle")];
    let (working, state, granted) = bench.acting(&key, &actions, grant(1)).await;
    let idle_event = bench.post(&key, "go").await;
    let visit =
        ConformanceVisit::to(&key, &state, bench.now().await).act(idle_event, "working", &[ready("lone")]);
    let state = bench.commit_done(visit).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let visit = ConformanceVisit::to(&key, &state, bench.now().await)
        .end(cancel, "working", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;

    let statuses: Vec<_> = bench.actions(&key).await.into_iter().map(|view| view.status).collect();
    let cancelled = ActionStatus::Cancelled;
    assert_eq!(statuses, [ActionStatus::Leased, cancelled, cancelled, cancelled]);
    assert!(bench.action(&key, "idle").await.settled_at.is_some());
    let record = bench.event(&key, idle_event).await;
    assert_eq!(record.status, EventStatus::Completed, "no further effect follows");
    assert!(record.completed_at.is_some());
    assert_eq!(bench.event(&key, working).await.status, EventStatus::Processing);
    assert!(
        bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap().is_empty()
    );

    let settled = settle(&bench, vec![succeed(&granted.leased[0], "1")], grant(5)).await;
    assert!(settled.leased.is_empty(), "a cancelled dependent stays cancelled");
    assert_eq!(bench.event(&key, working).await.status, EventStatus::Completed);
    assert_eq!(bench.action(&key, "after").await.status, cancelled);
}

pub async fn cancellation_spares_actions_of_its_commit(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, granted) = bench.acting(&key, &[ready("old")], grant(1)).await;
    let later = bench.now().await.plus(HOUR);
    settle(&bench, vec![retry(&granted.leased[0], later)], grant(0)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let visit = ConformanceVisit::to(&key, &state, bench.now().await)
        .act(cancel, "working", &[ready("farewell")])
        .cancel_open_actions();
    bench.commit_done(visit).await;
    assert_eq!(bench.action(&key, "old").await.status, ActionStatus::Cancelled);
    assert_eq!(bench.action(&key, "farewell").await.status, ActionStatus::Ready);
    assert_eq!(bench.event(&key, cancel).await.status, EventStatus::Processing);
}

pub async fn plain_commit_keeps_open_actions(bench: ConformanceBench) {
    let key = execution("one");
    let (working, state, _) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(0)).await;
    let id = bench.post(&key, "close").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).end(
            id,
            "closed",
            ExecutionPhase::Completed,
        ))
        .await;
    assert_eq!(bench.action(&key, "a").await.status, ActionStatus::Ready);
    assert_eq!(bench.event(&key, working).await.status, EventStatus::Processing);
    let leased = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(leased.len(), 1, "actions of an ended execution still run");
}
