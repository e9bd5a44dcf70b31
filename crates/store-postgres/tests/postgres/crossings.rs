//! Concurrent signals, starts, decisions of people and settlements: nothing is lost, nothing happens twice,
//! and there is no deadlock.

use futures::stream::{self, StreamExt};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{EventId, IncidentId, Name, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::status::{ActionStatus, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{ActionStore, AfterFailure, LeasedAction, SettleOutcome, Settlement};
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey, SignalSubmission};
use millstream_store::execution_store::{CommitVerdict, ExecutionStore};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::incidents::{IncidentDecision, IncidentFilter, Incidents, ResolveVerdict};
use millstream_store::intervention::DecisionRecord;
use millstream_store::relations::Relations;
use millstream_store::views::{EventViews, ExecutionViews};
use uuid::Uuid;

use crate::support::{self, PostgresFixture, event, grant, key, raw, worker};

const AT_ONCE: usize = 6;

fn signal(correlation: &str, now: Timestamp) -> SignalSubmission {
    SignalSubmission {
        event_id: EventId(Uuid::now_v7()),
        tenant: TenantId::default_tenant(),
        correlation: correlation.to_owned(),
        definition: None,
        name: Name::parse("paid").unwrap(),
        payload: raw("1"),
        idempotency: Some(IdempotencyKey { key: format!("key of {correlation}"), request_hash: [1; 32] }),
        actor: None,
        traceparent: None,
        expires_at: now.plus(std::time::Duration::from_secs(3600)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_signals_and_starts_meet() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    stream::iter(0..300)
        .for_each_concurrent(AT_ONCE, |round| async move {
            let name = |n: usize| format!("c-{round}-{n}");
            let signals: Vec<_> = (0..4).map(|n| signal(&name(n), now)).collect();
            let starts = (0..4).rev().map(|n| {
                let mut start = support::start(&key(&name(n)), now);
                start.state.correlation = Some(name(n));
                start.applied.transition.decision.correlation = Some(name(n));
                AppendRequest::Start(Box::new(start))
            });
            let starts: Vec<_> = starts.collect();
            let sent: Vec<_> =
                signals.iter().cloned().map(|one| AppendRequest::Signal(Box::new(one))).collect();
            let (started, sent) = tokio::join!(store.append(&starts, now), store.append(&sent, now));
            assert!(started.unwrap().iter().all(|one| matches!(one, Appended::Accepted { .. })));
            for (n, sent) in sent.unwrap().into_iter().enumerate() {
                let fits = match &sent {
                    Appended::Buffered => true,
                    Appended::Delivered { execution, .. } => *execution == key(&name(n)),
                    Appended::Accepted { .. }
                    | Appended::Repeat { .. }
                    | Appended::Ambiguous { .. }
                    | Appended::Mismatch
                    | Appended::NoExecution => false,
                };
                assert!(fits, "round {round}: {sent:?}");
            }
            let ids: Vec<_> = signals.iter().map(|one| (one.tenant.clone(), one.event_id)).collect();
            for (n, view) in store.find_events(&ids).await.unwrap().into_iter().enumerate() {
                assert_eq!(view.unwrap().execution, key(&name(n)), "round {round}");
            }
            assert!(store.find_signals(&ids).await.unwrap().iter().all(Option::is_none));
        })
        .await;
    fixture.assert_no_deadlock().await;
}

#[tokio::test]
async fn batch_items_see_earlier_signals_and_starts() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    let start = |id: &str| {
        let mut start = support::start(&key(id), now);
        start.state.correlation = Some("c".to_owned());
        start.applied.transition.decision.correlation = Some("c".to_owned());
        AppendRequest::Start(Box::new(start))
    };
    let stored = SignalSubmission { idempotency: None, ..signal("c", now) };
    store.append(&[AppendRequest::Signal(Box::new(stored.clone()))], now).await.unwrap();
    let (before, after) = (signal("c", now), SignalSubmission { idempotency: None, ..signal("c", now) });
    let posted = event(&key("one"), "go");
    let batch = [
        AppendRequest::Signal(Box::new(before.clone())),
        AppendRequest::Signal(Box::new(before.clone())),
        start("one"),
        AppendRequest::Event(posted.clone()),
        AppendRequest::Signal(Box::new(after.clone())),
        start("two"),
        AppendRequest::Signal(Box::new(SignalSubmission { idempotency: None, ..signal("c", now) })),
    ];
    let appended = store.append(&batch, now).await.unwrap();
    assert!(
        matches!(
            &appended[..],
            [
                Appended::Buffered,
                Appended::Repeat { .. },
                Appended::Accepted { .. },
                Appended::Accepted { .. },
                Appended::Delivered { .. },
                Appended::Accepted { .. },
                Appended::Ambiguous { executions: 2 },
            ]
        ),
        "{appended:?}"
    );
    let ids = [stored.event_id, before.event_id, posted.event_id, after.event_id];
    let ids = ids.map(|id| (TenantId::default_tenant(), id));
    let places: Vec<_> =
        store.find_events(&ids).await.unwrap().into_iter().map(|view| view.unwrap().accept_no).collect();
    assert!(places.is_sorted(), "{places:?}");
}

fn failed(action: &LeasedAction) -> Settlement {
    let incident = NewIncident {
        id: IncidentId(Uuid::now_v7()),
        class: ErrorClass::Status,
        reason: "answered 500".to_owned(),
    };
    let outcome = SettleOutcome::Failed { error: raw("{}"), then: AfterFailure::Incident(incident) };
    Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome }
}

/// Decisions about all incidents in one order, in the reverse order, and settlements of the reopened actions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_incident_decisions_happen_once() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let tenant = TenantId::default_tenant();
    let by = DecisionRecord { actor: Some("ann".to_owned()), reason: None };
    let now = store.ping().await.unwrap();
    for round in 0..20 {
        let keys = fixture.start(20, &format!("r{round}")).await;
        let posts: Vec<_> = keys.iter().map(|key| event(key, "go")).collect();
        let commits = keys.iter().zip(&posts);
        let commits = commits.map(|(key, post)| support::act(key, post.event_id, &["a", "b"], now)).collect();
        let batch: Vec<_> = posts.into_iter().map(AppendRequest::Event).collect();
        store.append(&batch, now).await.unwrap();
        let commits = fixture.placed(commits).await;
        let committed = store.commit_executions(&worker(), &commits, &grant(usize::MAX), now).await.unwrap();
        let leased: Vec<LeasedAction> = committed
            .into_iter()
            .flat_map(|committed| match committed {
                CommitVerdict::Done { leased, .. } => leased,
                other @ (CommitVerdict::Conflict | CommitVerdict::Missing) => {
                    panic!("not committed: {other:?}")
                }
            })
            .collect();
        let (forth, back): (Vec<_>, Vec<_>) =
            leased.iter().map(failed).partition(|one| one.lease.key.action.as_str() == "a");
        let back: Vec<_> = back.into_iter().rev().collect();
        let (worker, none) = (worker(), grant(0));
        let settled = tokio::join!(
            store.settle_actions(&worker, &forth, &none, now),
            store.settle_actions(&worker, &back, &none, now)
        );
        assert!(settled.0.is_ok() && settled.1.is_ok(), "{settled:?}");
        let open = IncidentFilter {
            status: Some(millstream_store::incidents::IncidentStatus::Open),
            ..IncidentFilter::default()
        };
        let open = store.list_incidents(&tenant, &open, None, 100).await.unwrap();
        assert_eq!(open.len(), 40, "round {round}");
        let retries: Vec<_> = open.iter().map(|view| (view.id, IncidentDecision::Retry)).collect();
        let skip = || IncidentDecision::Skip { result: raw("1"), emit: None };
        let skips: Vec<_> = open.iter().rev().map(|view| (view.id, skip())).collect();
        let ((retried, skipped), ()) = tokio::join!(
            async {
                tokio::join!(
                    store.resolve_incidents(&tenant, &retries, &by, now),
                    store.resolve_incidents(&tenant, &skips, &by, now)
                )
            },
            async {
                for _ in 0..10 {
                    let leased =
                        store.lease_each(std::slice::from_ref(&worker), &grant(5), now).await.unwrap();
                    let batch: Vec<_> = leased
                        .into_iter()
                        .map(|action| Settlement {
                            lease: action.lease,
                            event_id: action.event_id,
                            outcome: SettleOutcome::Succeeded { result: raw("2"), emit: None },
                        })
                        .collect();
                    store.settle_actions(&worker, &batch, &grant(0), now).await.unwrap();
                }
            }
        );
        let done = |verdicts: &[ResolveVerdict]| {
            verdicts.iter().filter(|one| matches!(one, ResolveVerdict::Done { .. })).count()
        };
        assert_eq!(done(&retried.unwrap()) + done(&skipped.unwrap()), 40, "round {round}");
        for view in store.find_executions(&keys).await.unwrap() {
            assert_eq!(view.unwrap().status, ExecutionStatus::Active, "round {round}");
        }
        for key in &keys {
            let actions = store.list_actions(key, None, 10).await.unwrap();
            assert!(actions.iter().all(|view| view.status != ActionStatus::Failed), "round {round}");
        }
    }
    fixture.assert_no_deadlock().await;
}
