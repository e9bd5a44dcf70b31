//! Loading: one consistent picture of state and mailbox.

use millstream_core::id::Seq;
use millstream_core::log::{Kept, Origin};
use millstream_core::machine::evolve;
use millstream_core::status::{PauseState, Phase};

use super::Bench;
use super::fixture::{event, execution, execution_of, ids, order, pausing, raw};
use super::visit::Visit;
use crate::event_log::{Append, NewEvent};
use crate::execution_store::{Committed, Known, Loaded, MailboxLimits, More, Wanted};
use crate::housekeeping::Outlived;

pub async fn loading_brings_state_and_mailbox(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = bench.post(&key, "pay").await;
    let second = bench.post(&key, "ship").await;
    let found = bench.load(&key, None).await;
    assert_eq!((found.execution.clone(), found.definition.clone()), (key, order()));
    assert_eq!((found.seq, found.snapshot_seq, found.pause), (Seq(1), Seq(1), PauseState::Running));
    assert_eq!(found.state, Some((state, Vec::new())));
    assert_eq!(ids(&found.mailbox), [first, second]);
    assert_eq!(found.more, More::Nothing);
    let head = &found.mailbox[0];
    assert_eq!((head.kept, head.attempts, head.origin), (Kept::Undecided, 0, Origin::Posted));
}

pub async fn a_missing_execution_is_missing_and_the_others_are_found(bench: Bench) {
    bench.start(&execution("one")).await;
    bench.start(&execution("two")).await;
    let wanted = [execution("two"), execution("none"), execution_of("rival", "one"), execution("one")]
        .map(|execution| Wanted { execution, known: None });
    let loaded = bench.stores.executions.load(&wanted, MailboxLimits::default()).await.unwrap();
    let found: Vec<_> = loaded
        .iter()
        .map(|loaded| match loaded {
            Loaded::Found(found) => Some(found.execution.execution.as_str()),
            Loaded::Missing => None,
            Loaded::Corrupt { reason } => panic!("{reason}"),
        })
        .collect();
    assert_eq!(found, [Some("two"), None, None, Some("one")]);
}

pub async fn a_mailbox_is_cut_by_count_and_says_so(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let posted: Vec<Append> = (0..5).map(|_| Append::Event(event(&bench, &key, "pay"))).collect();
    bench.append(&posted).await;
    let all = bench.mailbox(&key).await;
    let limits = |events| MailboxLimits { events, ..MailboxLimits::default() };
    let cut = bench.load_within(&key, None, limits(3)).await;
    assert_eq!((ids(&cut.mailbox), cut.more), (all[..3].to_vec(), More::Remains));
    let whole = bench.load_within(&key, None, limits(5)).await;
    assert_eq!((ids(&whole.mailbox), whole.more), (all, More::Nothing));
}

pub async fn a_mailbox_is_cut_by_bytes_but_never_to_nothing(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let big = raw(&format!("\"{}\"", "x".repeat(998)));
    for _ in 0..3 {
        let event = NewEvent { payload: big.clone(), ..event(&bench, &key, "pay") };
        bench.append_event(&event).await;
    }
    let limits = |bytes| MailboxLimits { bytes, ..MailboxLimits::default() };
    for (bytes, expected, more) in
        [(10, 1, More::Remains), (2_500, 2, More::Remains), (3_000, 3, More::Nothing)]
    {
        let cut = bench.load_within(&key, None, limits(bytes)).await;
        assert_eq!((cut.mailbox.len(), cut.more), (expected, more), "{bytes} bytes");
    }
}

pub async fn limits_apply_to_each_execution_by_itself(bench: Bench) {
    let keys = [execution("one"), execution("two")];
    for key in &keys {
        bench.start(key).await;
        bench.post(key, "pay").await;
        bench.post(key, "ship").await;
    }
    let wanted = keys.map(|execution| Wanted { execution, known: None });
    let limits = MailboxLimits { events: 2, ..MailboxLimits::default() };
    for loaded in bench.stores.executions.load(&wanted, limits).await.unwrap() {
        let Loaded::Found(found) = loaded else { panic!("{loaded:?}") };
        assert_eq!((found.mailbox.len(), found.more), (2, More::Nothing));
    }
}

pub async fn a_caller_that_knows_the_seq_gets_no_state(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let event = bench.post(&key, "pay").await;
    let position = bench.execution(&key).await.position;
    let at = |seq| Some(Known { position, seq: Seq(seq) });
    let known = bench.load(&key, at(1)).await;
    assert_eq!(known.position, position);
    assert_eq!((known.seq, known.state, ids(&known.mailbox)), (Seq(1), None, vec![event]));
    let moved = bench.commit_done(Visit::to(&key, &state, bench.now().await).apply(event, "paid")).await;
    let stale = bench.load(&key, at(1)).await;
    assert_eq!((stale.seq, stale.state), (Seq(2), Some((moved, Vec::new()))));
    assert_eq!(bench.load(&key, at(2)).await.state, None);
}

pub async fn an_id_that_is_used_again_is_another_execution(bench: Bench) {
    let key = execution("one");
    let (now, state) = (bench.now().await, bench.start(&key).await);
    let last = bench.post(&key, "close").await;
    bench.commit_done(Visit::to(&key, &state, now).end(last, "closed", Phase::Completed)).await;
    let old = bench.load(&key, None).await;
    let known = Some(Known { position: old.position, seq: old.seq });
    assert_eq!(bench.load(&key, known).await.state, None);
    let later = bench.now().await.plus(super::fixture::HOUR);
    assert_eq!(bench.stores.housekeeping.purge_executions(Outlived::before(later), 10).await.unwrap(), 1);

    let state = bench.start(&key).await;
    let id = bench.post(&key, "pay").await;
    let state = bench.commit_done(Visit::to(&key, &state, bench.now().await).apply(id, "paid")).await;
    let found = bench.load(&key, known).await;
    assert_eq!(found.seq, old.seq, "the case is void: the seq alone tells them apart");
    assert!(found.position > old.position);
    assert_eq!(found.state, Some((state, Vec::new())), "the cached state is of another execution");
}

pub async fn a_skipped_snapshot_is_made_up_by_transitions(bench: Bench) {
    let key = execution("one");
    let first = bench.start(&key).await;
    let mut state = first.clone();
    for to in ["a", "b", "c"] {
        let event = bench.post(&key, "go").await;
        let visit = Visit::to(&key, &state, bench.now().await).apply(event, to).without_snapshot();
        state = bench.commit_done(visit).await;
    }
    let found = bench.load(&key, None).await;
    assert_eq!((found.seq, found.snapshot_seq), (Seq(4), Seq(1)));
    let (snapshot, later) = found.state.unwrap();
    assert_eq!(snapshot, first);
    assert_eq!(later.iter().map(|transition| transition.seq.0).collect::<Vec<_>>(), [2, 3, 4]);
    let folded = later.iter().fold(snapshot, |state, transition| evolve(Some(state), transition));
    assert_eq!(folded, state);
    assert_eq!(bench.execution(&key).await.state, state);

    let event = bench.post(&key, "go").await;
    let written = bench.commit_done(Visit::to(&key, &state, bench.now().await).apply(event, "d")).await;
    let found = bench.load(&key, None).await;
    assert_eq!((found.snapshot_seq, found.state), (Seq(5), Some((written, Vec::new()))));
}

pub async fn deferred_events_come_along_and_are_not_counted(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let early = bench.post(&key, "ship").await;
    bench.commit_done(Visit::to(&key, &state, bench.now().await).defer(early)).await;
    let (next, beyond) = (bench.post(&key, "pay").await, bench.post(&key, "pay").await);
    let limits = MailboxLimits { events: 1, ..MailboxLimits::default() };
    let found = bench.load_within(&key, None, limits).await;
    assert_eq!(ids(&found.mailbox), [early, next]);
    assert_eq!(found.mailbox[0].kept, Kept::Deferred);
    assert_eq!(found.mailbox[1].kept, Kept::Undecided);
    assert_eq!(found.more, More::Remains);
    assert_eq!(bench.mailbox(&key).await, [early, next, beyond]);
}

pub async fn a_paused_mailbox_shows_its_cancellation_behind_any_backlog(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let early = bench.post(&key, "ship").await;
    bench.commit_done(Visit::to(&key, &state, bench.now().await).defer(early)).await;
    bench.post(&key, "pay").await;
    bench.post(&key, "pay").await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause(&pause, bench.now().await).await.unwrap();
    let limits = MailboxLimits { events: 1, ..MailboxLimits::default() };
    let found = bench.load_within(&key, None, limits).await;
    assert_eq!(found.pause, PauseState::Paused);
    assert_eq!((ids(&found.mailbox), found.more), (vec![early, cancel], More::Nothing));
}

pub async fn state_and_mailbox_are_of_one_moment(bench: Bench) {
    let key = execution("one");
    let mut state = bench.start(&key).await;
    let total = 60;
    let posted: Vec<Append> = (0..total).map(|_| Append::Event(event(&bench, &key, "pay"))).collect();
    bench.append(&posted).await;
    let reader = {
        let (bench, key) = (bench.clone(), key.clone());
        tokio::spawn(async move {
            loop {
                let found = bench.load(&key, None).await;
                let undecided = i64::try_from(found.mailbox.len()).unwrap();
                assert_eq!(found.seq.0 - 1 + undecided, total, "applied and undecided do not add up");
                let (snapshot, later) = found.state.unwrap();
                let folded = later.iter().fold(snapshot, |state, next| evolve(Some(state), next));
                assert_eq!(folded.seq, found.seq);
                if undecided == 0 {
                    return;
                }
            }
        })
    };
    for id in bench.mailbox(&key).await {
        let mut visit = Visit::to(&key, &state, bench.now().await).apply(id, "paid");
        if state.seq.0 % 3 != 0 {
            visit = visit.without_snapshot();
        }
        state = bench.commit_done(visit).await;
    }
    reader.await.unwrap();
}

pub async fn an_ended_execution_still_has_a_mailbox(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let last = bench.post(&key, "close").await;
    let visit = Visit::to(&key, &state, bench.now().await).end(last, "closed", Phase::Completed);
    let state = bench.commit_done(visit).await;
    let late = bench.post(&key, "pay").await;
    assert_eq!(bench.mailbox(&key).await, [late]);
    let verdict = bench.commit_one(Visit::to(&key, &state, bench.now().await).reject(late, "ended")).await;
    assert!(matches!(verdict, Committed::Done { .. }));
    assert!(bench.mailbox(&key).await.is_empty());
}
