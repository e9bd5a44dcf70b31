//! Committing: the fence, verdicts, event records, the log.

use millstream_model::id::{AcceptNo, Seq};
use millstream_model::status::{EventStatus, ExecutionPhase, ExecutionStatus};
use millstream_store::execution_store::CommitVerdict;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, broken, done, ready};
use crate::fixture::{HOUR, burial, event, execution, grant, name, pausing, timer, worker};

pub async fn commit_writes_state_log_and_event(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (first, second) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now).apply(first, "paid").apply(second, "shipped");
    let after = bench.commit_done(visit.clone()).await;

    let view = bench.execution(&key).await;
    assert_eq!((view.state.clone(), view.status), (after.clone(), ExecutionStatus::Active));
    assert_eq!((view.state.seq, view.state.state), (Seq(3), name("shipped")));
    assert!(view.updated_at >= now && view.created_at <= now);
    let history = bench.stores.execution_views.read_history(&key, Seq(1), 10).await.unwrap().entries;
    let log: Vec<_> = history.into_iter().map(|entry| entry.transition).collect();
    assert_eq!(log, visit.commit().transitions);

    let record = bench.event(&key, second).await;
    assert_eq!((record.status, record.seq), (EventStatus::Completed, Some(Seq(3))));
    assert_eq!((record.from_state, record.to_state), (Some(name("paid")), Some(name("shipped"))));
    assert_eq!((record.worker_id, record.error), (Some(worker("w1")), None));
    assert!(record.started_at.is_some_and(|at| at >= now) && record.completed_at == record.started_at);
}

pub async fn rejection_is_recorded_with_reason(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "ship").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).reject(id, "not handled here"))
        .await;
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.seq), (EventStatus::Rejected, None));
    assert_eq!(record.error.as_deref(), Some("not handled here"));
    assert_eq!((record.from_state, record.to_state), (Some(name("received")), None));
    assert_eq!((record.worker_id, record.started_at), (Some(worker("w1")), None));
    assert!(record.completed_at.is_some());
    assert_eq!(bench.execution(&key).await.state, state);
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn deferred_event_can_be_applied_later(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let early = bench.post(&key, "ship").await;
    let state = bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).defer(early)).await;
    assert_eq!(bench.event(&key, early).await.status, EventStatus::Deferred);
    let paid = bench.post(&key, "pay").await;
    let visit =
        ConformanceVisit::to(&key, &state, bench.now().await).apply(paid, "paid").apply(early, "shipped");
    bench.commit_done(visit).await;
    let record = bench.event(&key, early).await;
    assert_eq!((record.status, record.seq), (EventStatus::Completed, Some(Seq(3))));
}

pub async fn commit_at_other_seq_writes_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let old = bench.start(&key).await;
    let first = bench.post(&key, "pay").await;
    let state =
        bench.commit_done(ConformanceVisit::to(&key, &old, bench.now().await).apply(first, "paid")).await;
    let id = bench.post(&key, "ship").await;
    let now = bench.now().await;
    let stale = |visit: ConformanceVisit| visit.expecting(old.seq);
    let attempts = [
        ConformanceVisit::to(&key, &old, now)
            .act(id, "shipped", &[ready("charge")])
            .arm(vec![timer(Seq(2), 0, now.plus(HOUR), "expire")])
            .emit(event(&bench, &key, "charged")),
        ConformanceVisit::to(&key, &old, now).reject(id, "no"),
        ConformanceVisit::to(&key, &old, now).defer(id),
        stale(ConformanceVisit::to(&key, &state, now).reject(id, "no")),
        ConformanceVisit::to(&key, &state, now).expecting(Seq(3)).reject(id, "from the future"),
        ConformanceVisit::to(&key, &old, now).end(id, "closed", ExecutionPhase::Cancelled),
    ];
    for (n, attempt) in attempts.into_iter().enumerate() {
        let verdict = bench.commit(vec![attempt], grant(5)).await.remove(0);
        assert!(matches!(verdict, CommitVerdict::Conflict), "attempt {n}: {verdict:?}");
    }
    let view = bench.execution(&key).await;
    assert_eq!((view.state, view.status), (state, ExecutionStatus::Active));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Pending);
    assert_eq!(bench.mailbox(&key).await, [id]);
    assert!(bench.actions(&key).await.is_empty());
    assert!(bench.timers(&key).await.is_empty());
    assert_eq!(bench.stores.execution_views.read_history(&key, Seq(0), 10).await.unwrap().entries.len(), 2);
}

pub async fn each_commit_has_its_own_verdict(bench: ConformanceBench) {
    let keys = ["one", "two", "three"].map(execution);
    let mut visits = Vec::new();
    let now = bench.now().await;
    for key in &keys {
        let state = bench.start(key).await;
        let id = bench.post(key, "pay").await;
        visits.push(ConformanceVisit::to(key, &state, now).apply(id, "paid"));
    }
    visits[1] = visits[1].clone().expecting(Seq(9));
    let gone = bench.start(&execution("four")).await;
    visits.insert(0, ConformanceVisit::to(&execution("gone"), &gone, now).reject(bench.event_id(), "no"));
    let verdicts = bench.commit(visits, grant(0)).await;
    assert!(matches!(
        verdicts[..],
        [
            CommitVerdict::Missing,
            CommitVerdict::Done { .. },
            CommitVerdict::Conflict,
            CommitVerdict::Done { .. }
        ]
    ));
    let mut seqs = Vec::new();
    for key in &keys {
        seqs.push(bench.execution(key).await.state.seq.0);
    }
    assert_eq!(seqs, [2, 1, 2]);
}

pub async fn one_of_two_commits_at_seq_wins(bench: ConformanceBench) {
    let keys = [execution("one"), execution("two")];
    let mut states = Vec::new();
    for key in &keys {
        states.push(bench.start(key).await);
    }
    for round in 0..60 {
        let now = bench.now().await;
        let mut events = Vec::new();
        for key in &keys {
            events.push(bench.post(key, "pay").await);
        }
        // Two workers with the same two executions, in crossed order.
        let tasks = ["left", "right"].map(|to| {
            let mut visits: Vec<_> = keys
                .iter()
                .zip(&states)
                .zip(&events)
                .map(|((key, state), id)| {
                    ConformanceVisit::to(key, state, now).act(*id, to, &[ready("charge")])
                })
                .collect();
            if to == "right" {
                visits.reverse();
            }
            let bench = bench.clone();
            tokio::spawn(async move {
                let won: Vec<bool> = bench
                    .commit(visits, grant(0))
                    .await
                    .into_iter()
                    .map(|verdict| match verdict {
                        CommitVerdict::Done { .. } => true,
                        CommitVerdict::Conflict => false,
                        CommitVerdict::Missing => panic!("missing"),
                    })
                    .collect();
                won
            })
        });
        let [left, right] = tasks;
        let (left, mut right) = (left.await.unwrap(), right.await.unwrap());
        right.reverse();
        for (n, key) in keys.iter().enumerate() {
            assert!(left[n] != right[n], "round {round}: {left:?} {right:?}");
            let view = bench.execution(key).await;
            assert_eq!(view.state.state, name(if left[n] { "left" } else { "right" }));
            assert_eq!(view.state.seq, states[n].seq.next());
            states[n] = view.state;
        }
    }
    for key in &keys {
        assert_eq!(bench.actions(key).await.len(), 60);
        let history = bench.stores.execution_views.read_history(key, Seq(0), 100).await.unwrap().entries;
        let seqs: Vec<_> = history.iter().map(|entry| entry.transition.seq.0).collect();
        assert_eq!(seqs, (1..=61).collect::<Vec<_>>());
    }
}

pub async fn paused_execution_accepts_only_cancellation(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (id, cancel) = (bench.post(&key, "pay").await, bench.post(&key, "millstream.cancel").await);
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause_executions(&pause, bench.now().await).await.unwrap();
    let now = bench.now().await;
    for attempt in [
        ConformanceVisit::to(&key, &state, now).apply(id, "paid"),
        ConformanceVisit::to(&key, &state, now).reject(id, "no"),
        ConformanceVisit::to(&key, &state, now).defer(id),
        ConformanceVisit::to(&key, &state, now).end(id, "closed", ExecutionPhase::Completed),
        ConformanceVisit::to(&key, &state, now).end(id, "closed", ExecutionPhase::Failed),
    ] {
        assert!(matches!(bench.commit_one(attempt).await, CommitVerdict::Conflict));
    }
    assert_eq!(bench.execution(&key).await.paused_reason.as_deref(), Some("broken"));
    assert_eq!(bench.mailbox(&key).await, [cancel]);
    let cancellation =
        ConformanceVisit::to(&key, &state, now).end(cancel, "received", ExecutionPhase::Cancelled);
    bench.commit_done(cancellation.cancel_open_actions()).await;
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason), (ExecutionStatus::Cancelled, None));
    assert_eq!(bench.mailbox(&key).await, [id], "what is left can be rejected");
    assert_eq!(bench.stores.events.has_work(&[key]).await.unwrap(), [true]);
}

pub async fn pause_after_end_blocks_no_verdict(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let last = bench.post(&key, "close").await;
    let end =
        ConformanceVisit::to(&key, &state, bench.now().await).end(last, "closed", ExecutionPhase::Completed);
    let state = bench.commit_done(end).await;
    let late = bench.post(&key, "millstream.cancel").await;
    bench.stores.interventions.pause_executions(&[pausing(&key, "odd")], bench.now().await).await.unwrap();
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).reject(late, "ended")).await;
    assert_eq!(bench.event(&key, late).await.status, EventStatus::Rejected);
}

pub async fn failed_verdict_pauses_execution(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (id, next) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let visit = ConformanceVisit::to(&key, &state, bench.now().await)
        .act(id, "paid", &[broken("charge")])
        .failing("no such key");
    let state = bench.commit_done(visit).await;
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.error.as_deref()), (EventStatus::Failed, Some("no such key")));
    assert!(record.completed_at.is_some());
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason.as_deref()), (ExecutionStatus::Paused, Some("no such key")));
    let verdict =
        bench.commit_one(ConformanceVisit::to(&key, &state, bench.now().await).apply(next, "shipped")).await;
    assert!(matches!(verdict, CommitVerdict::Conflict));
}

pub async fn commit_on_decided_event_writes_nothing(bench: ConformanceBench) {
    let (key, other) = (execution("one"), execution("other"));
    let (state, innocent) = (bench.start(&key).await, bench.start(&other).await);
    let (first, second) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let apart = bench.post(&other, "pay").await;
    let now = bench.now().await;
    // Another worker has rejected the second event; the seq is as it was.
    bench.commit_done(ConformanceVisit::to(&key, &state, now).reject(second, "the first reason")).await;
    let to = || ConformanceVisit::to(&key, &state, now);
    let attempts = [
        to().act(first, "paid", &[ready("charge")]).apply(second, "shipped").emit(event(&bench, &key, "x")),
        to().apply(first, "paid").reject(second, "another"),
        to().apply(first, "paid").defer(second),
        to().apply(first, "paid").reject(bench.event_id(), "there is no such event"),
        to().apply(first, "paid").reject(apart, "an event of another execution"),
    ];
    for (n, attempt) in attempts.into_iter().enumerate() {
        let verdict = bench.commit_one(attempt).await;
        assert!(matches!(verdict, CommitVerdict::Conflict), "attempt {n}: {verdict:?}");
    }
    assert_eq!(bench.execution(&key).await.state, state);
    assert_eq!(bench.mailbox(&key).await, [first]);
    assert!(bench.actions(&key).await.is_empty());
    assert_eq!(bench.event(&key, second).await.error.as_deref(), Some("the first reason"));
    let batch = vec![
        to().apply(first, "paid").apply(second, "shipped"),
        ConformanceVisit::to(&other, &innocent, now).apply(apart, "paid"),
    ];
    let verdicts = bench.commit(batch, grant(0)).await;
    assert!(matches!(verdicts[..], [CommitVerdict::Conflict, CommitVerdict::Done { .. }]), "{verdicts:?}");
    bench.commit_done(to().apply(first, "paid")).await;
}

pub async fn commit_on_buried_event_writes_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let last = bench.post(&key, "close").await;
    // Ended, because a burial in an active execution pauses it, which would be a second fence.
    let end =
        ConformanceVisit::to(&key, &state, bench.now().await).end(last, "closed", ExecutionPhase::Completed);
    let state = bench.commit_done(end).await;
    let (dead, late) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let buried = burial(key.clone(), dead, "crashed");
    bench.stores.interventions.bury_events(&[buried], bench.now().await).await.unwrap();
    let visit =
        ConformanceVisit::to(&key, &state, bench.now().await).reject(dead, "ended").reject(late, "ended");
    assert!(matches!(bench.commit_one(visit).await, CommitVerdict::Conflict));
    assert_eq!(bench.event(&key, dead).await.status, EventStatus::Dead);
    assert_eq!(bench.event(&key, late).await.status, EventStatus::Pending);
}

pub async fn end_is_visible_in_phase(bench: ConformanceBench) {
    for (id, phase, status) in [
        ("a", ExecutionPhase::Completed, ExecutionStatus::Completed),
        ("b", ExecutionPhase::Failed, ExecutionStatus::Failed),
        ("c", ExecutionPhase::Cancelled, ExecutionStatus::Cancelled),
    ] {
        let key = execution(id);
        let state = bench.start(&key).await;
        let last = bench.post(&key, "close").await;
        bench
            .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).end(last, "closed", phase))
            .await;
        let view = bench.execution(&key).await;
        assert_eq!((view.status, view.state.phase), (status, phase));
    }
}

pub async fn transition_arms_and_cancels_timers(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "pay").await;
    let now = bench.now().await;
    let timers = vec![
        timer(Seq(2), 0, now.plus(HOUR), "expire"),
        timer(Seq(2), 1, now.plus(HOUR * 2), "remind"),
        timer(Seq(0), 0, now.plus(HOUR * 3), "timeout"),
    ];
    let state =
        bench.commit_done(ConformanceVisit::to(&key, &state, now).apply(id, "paid").arm(timers)).await;
    assert_eq!(bench.timers(&key).await, ["expire", "remind", "timeout"]);
    let id = bench.post(&key, "ship").await;
    let next = vec![timer(Seq(3), 0, now.plus(HOUR * 4), "lost")];
    let visit = ConformanceVisit::to(&key, &state, now).apply(id, "shipped").disarm(Seq(2)).arm(next);
    bench.commit_done(visit).await;
    assert_eq!(bench.timers(&key).await, ["timeout", "lost"]);
}

pub async fn emitted_events_keep_their_order(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (id, waiting) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let emitted = [event(&bench, &key, "charged"), event(&bench, &key, "logged")];
    let visit = ConformanceVisit::to(&key, &state, bench.now().await)
        .apply(id, "paid")
        .emit(emitted[0].clone())
        .emit(emitted[1].clone());
    let done = done(bench.commit_one(visit).await);
    let mailbox = bench.load(&key, None).await.mailbox;
    let found: Vec<_> = mailbox.iter().map(|waiting| waiting.event_id).collect();
    assert_eq!(found, [waiting, emitted[0].event_id, emitted[1].event_id]);
    let nos: Vec<AcceptNo> = mailbox[1..].iter().map(|waiting| waiting.accept_no).collect();
    assert_eq!(done.emitted, nos);
    assert_eq!(bench.event(&key, emitted[0].event_id).await.actor.as_deref(), Some("tester"));
}

pub async fn attempts_count_while_undecided(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (id, early) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    let state = bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).defer(early)).await;
    let foreign = crate::fixture::execution_of("rival", "one");
    let counted = [(key.clone(), id), (foreign, id), (key.clone(), bench.event_id()), (key.clone(), early)];
    let store = &bench.stores.executions;
    assert_eq!(store.count_attempts(&counted).await.unwrap(), [1, 0, 0, 1]);
    assert_eq!(store.count_attempts(&counted[..1]).await.unwrap(), [2]);
    let mailbox = bench.load(&key, None).await.mailbox;
    assert_eq!(mailbox.iter().map(|waiting| waiting.attempts).collect::<Vec<_>>(), [2, 1]);
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(id, "paid")).await;
    assert_eq!(store.count_attempts(&counted[..1]).await.unwrap(), [0]);
    assert_eq!(bench.event(&key, id).await.attempts, 2);
}

pub async fn empty_commit_is_accepted(bench: ConformanceBench) {
    assert!(bench.commit(Vec::new(), grant(3)).await.is_empty());
    assert!(bench.stores.executions.count_attempts(&[]).await.unwrap().is_empty());
    assert!(bench.stores.executions.load_executions(&[], Default::default()).await.unwrap().is_empty());
}
