//! Loading: one consistent picture of state and mailbox.

use millstream_model::id::Seq;
use millstream_model::status::{ExecutionPhase, PauseState};
use millstream_store::event_log::{AppendRequest, EventSubmission};
use millstream_store::execution_store::{
    CachedVersion, CommitVerdict, LoadRequest, LoadVerdict, MailboxLimits, PageRemainder,
};
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_workflow::log::{EventOrigin, MailboxState};
use millstream_workflow::machine::evolve;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{event, execution, execution_of, ids, order, pausing, raw};

pub async fn load_returns_state_and_mailbox(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = bench.post(&key, "pay").await;
    let second = bench.post(&key, "ship").await;
    let found = bench.load(&key, None).await;
    assert_eq!((found.execution.clone(), found.definition.clone()), (key, order()));
    assert_eq!((found.seq, found.snapshot_seq, found.pause), (Seq(1), Seq(1), PauseState::Running));
    assert_eq!(found.state, Some((state, Vec::new())));
    assert_eq!(ids(&found.mailbox), [first, second]);
    assert_eq!(found.more, PageRemainder::Nothing);
    let head = &found.mailbox[0];
    assert_eq!((head.kept, head.attempts, head.origin), (MailboxState::Undecided, 0, EventOrigin::Posted));
}

pub async fn missing_execution_does_not_fail_load(bench: ConformanceBench) {
    bench.start(&execution("one")).await;
    bench.start(&execution("two")).await;
    let wanted = [execution("two"), execution("none"), execution_of("rival", "one"), execution("one")]
        .map(|execution| LoadRequest { execution, known: None });
    let loaded = bench.stores.executions.load_executions(&wanted, MailboxLimits::default()).await.unwrap();
    let found: Vec<_> = loaded
        .iter()
        .map(|loaded| match loaded {
            LoadVerdict::Found(found) => Some(found.execution.execution.as_str()),
            LoadVerdict::Missing => None,
            LoadVerdict::Corrupt { reason } => panic!("{reason}"),
        })
        .collect();
    assert_eq!(found, [Some("two"), None, None, Some("one")]);
}

pub async fn mailbox_is_cut_by_count(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let posted: Vec<AppendRequest> =
        (0..5).map(|_| AppendRequest::Event(event(&bench, &key, "pay"))).collect();
    bench.append(&posted).await;
    let all = bench.mailbox(&key).await;
    let limits = |events| MailboxLimits { events, ..MailboxLimits::default() };
    let cut = bench.load_within(&key, None, limits(3)).await;
    assert_eq!((ids(&cut.mailbox), cut.more), (all[..3].to_vec(), PageRemainder::Remains));
    let whole = bench.load_within(&key, None, limits(5)).await;
    assert_eq!((ids(&whole.mailbox), whole.more), (all, PageRemainder::Nothing));
}

pub async fn mailbox_cut_by_bytes_is_never_empty(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let big = raw(&format!("\"{}\"", "x".repeat(998)));
    for _ in 0..3 {
        let event = EventSubmission { payload: big.clone(), ..event(&bench, &key, "pay") };
        bench.append_event(&event).await;
    }
    let limits = |bytes| MailboxLimits { bytes, ..MailboxLimits::default() };
    for (bytes, expected, more) in [
        (10, 1, PageRemainder::Remains),
        (2_500, 2, PageRemainder::Remains),
        (3_000, 3, PageRemainder::Nothing),
    ] {
        let cut = bench.load_within(&key, None, limits(bytes)).await;
        assert_eq!((cut.mailbox.len(), cut.more), (expected, more), "{bytes} bytes");
    }
}

pub async fn mailbox_limits_apply_per_execution(bench: ConformanceBench) {
    let keys = [execution("one"), execution("two")];
    for key in &keys {
        bench.start(key).await;
        bench.post(key, "pay").await;
        bench.post(key, "ship").await;
    }
    let wanted = keys.map(|execution| LoadRequest { execution, known: None });
    let limits = MailboxLimits { events: 2, ..MailboxLimits::default() };
    for loaded in bench.stores.executions.load_executions(&wanted, limits).await.unwrap() {
        let LoadVerdict::Found(found) = loaded else { panic!("{loaded:?}") };
        assert_eq!((found.mailbox.len(), found.more), (2, PageRemainder::Nothing));
    }
}

pub async fn current_known_seq_loads_no_state(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let event = bench.post(&key, "pay").await;
    let position = bench.execution(&key).await.position;
    let at = |seq| Some(CachedVersion { position, seq: Seq(seq) });
    let known = bench.load(&key, at(1)).await;
    assert_eq!(known.position, position);
    assert_eq!((known.seq, known.state, ids(&known.mailbox)), (Seq(1), None, vec![event]));
    let moved =
        bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(event, "paid")).await;
    let stale = bench.load(&key, at(1)).await;
    assert_eq!((stale.seq, stale.state), (Seq(2), Some((moved, Vec::new()))));
    assert_eq!(bench.load(&key, at(2)).await.state, None);
}

pub async fn reused_execution_id_is_not_known(bench: ConformanceBench) {
    let key = execution("one");
    let (now, state) = (bench.now().await, bench.start(&key).await);
    let last = bench.post(&key, "close").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, now).end(last, "closed", ExecutionPhase::Completed))
        .await;
    let old = bench.load(&key, None).await;
    let known = Some(CachedVersion { position: old.position, seq: old.seq });
    assert_eq!(bench.load(&key, known).await.state, None);
    let later = bench.now().await.plus(crate::fixture::HOUR);
    assert_eq!(
        bench.stores.housekeeping.purge_executions(RetentionCutoffs::uniform(later), 10).await.unwrap(),
        1
    );

    let state = bench.start(&key).await;
    let id = bench.post(&key, "pay").await;
    let state =
        bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(id, "paid")).await;
    let found = bench.load(&key, known).await;
    assert_eq!(found.seq, old.seq, "the case is void: the seq alone tells them apart");
    assert!(found.position > old.position);
    assert_eq!(found.state, Some((state, Vec::new())), "the cached state is of another execution");
}

pub async fn skipped_snapshot_is_rebuilt_from_transitions(bench: ConformanceBench) {
    let key = execution("one");
    let first = bench.start(&key).await;
    let mut state = first.clone();
    for to in ["a", "b", "c"] {
        let event = bench.post(&key, "go").await;
        let visit = ConformanceVisit::to(&key, &state, bench.now().await).apply(event, to).without_snapshot();
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
    let written =
        bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(event, "d")).await;
    let found = bench.load(&key, None).await;
    assert_eq!((found.snapshot_seq, found.state), (Seq(5), Some((written, Vec::new()))));
}

pub async fn deferred_events_are_loaded_beyond_limits(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let early = bench.post(&key, "ship").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).defer(early)).await;
    let (next, beyond) = (bench.post(&key, "pay").await, bench.post(&key, "pay").await);
    let limits = MailboxLimits { events: 1, ..MailboxLimits::default() };
    let found = bench.load_within(&key, None, limits).await;
    assert_eq!(ids(&found.mailbox), [early, next]);
    assert_eq!(found.mailbox[0].kept, MailboxState::Deferred);
    assert_eq!(found.mailbox[1].kept, MailboxState::Undecided);
    assert_eq!(found.more, PageRemainder::Remains);
    assert_eq!(bench.mailbox(&key).await, [early, next, beyond]);
}

pub async fn paused_mailbox_shows_cancellation_behind_backlog(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let early = bench.post(&key, "ship").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).defer(early)).await;
    bench.post(&key, "pay").await;
    bench.post(&key, "pay").await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause_executions(&pause, bench.now().await).await.unwrap();
    let limits = MailboxLimits { events: 1, ..MailboxLimits::default() };
    let found = bench.load_within(&key, None, limits).await;
    assert_eq!(found.pause, PauseState::Paused);
    assert_eq!((ids(&found.mailbox), found.more), (vec![early, cancel], PageRemainder::Nothing));
}

pub async fn state_and_mailbox_share_one_snapshot(bench: ConformanceBench) {
    let key = execution("one");
    let mut state = bench.start(&key).await;
    let total = 60;
    let posted: Vec<AppendRequest> =
        (0..total).map(|_| AppendRequest::Event(event(&bench, &key, "pay"))).collect();
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
        let mut visit = ConformanceVisit::to(&key, &state, bench.now().await).apply(id, "paid");
        if state.seq.0 % 3 != 0 {
            visit = visit.without_snapshot();
        }
        state = bench.commit_done(visit).await;
    }
    reader.await.unwrap();
}

pub async fn ended_execution_still_has_mailbox(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let last = bench.post(&key, "close").await;
    let visit =
        ConformanceVisit::to(&key, &state, bench.now().await).end(last, "closed", ExecutionPhase::Completed);
    let state = bench.commit_done(visit).await;
    let late = bench.post(&key, "pay").await;
    assert_eq!(bench.mailbox(&key).await, [late]);
    let verdict =
        bench.commit_one(ConformanceVisit::to(&key, &state, bench.now().await).reject(late, "ended")).await;
    assert!(matches!(verdict, CommitVerdict::Done { .. }));
    assert!(bench.mailbox(&key).await.is_empty());
}
