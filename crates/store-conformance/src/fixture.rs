//! Fixtures of cases: names, executions, events, and short ways to store them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{
    DefinitionRef, EventId, ExecutionId, ExecutionKey, IncidentId, Name, Seq, TenantId, WorkerId,
};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;
use millstream_store::event_log::{AppendRequest, Appended, EventSubmission, ExecutionStart, IdempotencyKey};
use millstream_store::execution_store::{
    CachedVersion, LeaseGrant, LoadRequest, LoadVerdict, LoadedExecution, MailboxLimits,
};
use millstream_store::intervention::{EventBurial, ExecutionPause};
use millstream_store::views::{ActionRecord, EventView, ExecutionView};
use millstream_workflow::log::{
    AppliedEvent, ArmedTimer, EventOrigin, ExecutionState, FORMAT, MailboxEvent, StateEntry, Transition,
    TransitionDecision,
};
use millstream_workflow::machine::evolve;
use uuid::Uuid;

use crate::ConformanceBench;

/// A lease that does not expire during a case.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// A lease that expires while a case waits for it.
pub(crate) const SHORT: Duration = Duration::from_millis(40);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// For the engine's own queue.
pub(crate) fn grant(slots: usize) -> LeaseGrant {
    grant_for(slots, LONG)
}

pub(crate) fn grant_for(slots: usize, ttl: Duration) -> LeaseGrant {
    LeaseGrant {
        slots,
        ttl,
        queues: [ActionQueue::engine_for_all(), ActionQueue::engine_of(&tenant("acme"))].into(),
    }
}

pub(crate) fn burial(execution: ExecutionKey, event_id: EventId, error: &str) -> EventBurial {
    let incident = NewIncident { class: ErrorClass::Internal, ..incident(error) };
    EventBurial { execution, event_id, error: error.to_owned(), incident }
}

pub(crate) fn pausing(execution: &ExecutionKey, reason: &str) -> ExecutionPause {
    let incident = NewIncident { class: ErrorClass::Corrupt, ..incident(reason) };
    ExecutionPause { execution: execution.clone(), incident }
}

/// With an id of its own.
pub(crate) fn incident(reason: &str) -> NewIncident {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let id = IncidentId(Uuid::from_u128(u128::from(LAST.fetch_add(1, Ordering::Relaxed)) + 1));
    NewIncident { id, class: ErrorClass::Status, reason: reason.to_owned() }
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn tenant(text: &str) -> TenantId {
    TenantId::parse(text).unwrap()
}

pub(crate) fn worker(text: &str) -> WorkerId {
    WorkerId::parse(text).unwrap()
}

/// An execution of the tenant `acme`.
pub(crate) fn execution(id: &str) -> ExecutionKey {
    execution_of("acme", id)
}

pub(crate) fn execution_of(owner: &str, id: &str) -> ExecutionKey {
    ExecutionKey { tenant: tenant(owner), execution: ExecutionId::parse(id).unwrap() }
}

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(crate) fn order() -> DefinitionRef {
    DefinitionRef { name: name("order"), version: 1 }
}

pub(crate) fn timer(armed: Seq, ordinal: i32, fire_at: Timestamp, send: &str) -> ArmedTimer {
    ArmedTimer { armed_seq: armed, ordinal, fire_at, send: name(send) }
}

/// An execution of `order@1` in the state `received`, with `{"total":12.50}` as its input.
pub(crate) fn new_execution(bench: &ConformanceBench, key: &ExecutionKey, now: Timestamp) -> ExecutionStart {
    armed_execution(bench, key, Vec::new(), now)
}

/// The same with timers that its entry arms.
pub(crate) fn armed_execution(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    timers: Vec<ArmedTimer>,
    now: Timestamp,
) -> ExecutionStart {
    let input = raw(r#"{"total":12.50}"#);
    let start = EventSubmission { payload: input, ..event(bench, key, "millstream.start") };
    let transition = Transition {
        seq: Seq::FIRST,
        event_id: start.event_id,
        name: Name::start_event(),
        at: now,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: name("received"),
            entered: StateEntry::Entered,
            set: BTreeMap::from([("total".to_owned(), raw("12.50"))]),
            phase: ExecutionPhase::Active,
            reason: None,
            timers,
            actions: Vec::new(),
            parent: None,
            correlation: None,
            graph: None,
        },
    };
    let state = evolve(None, &transition);
    ExecutionStart {
        key: key.clone(),
        definition: order(),
        input_hash: [7; 32],
        start,
        applied: AppliedEvent { transition, actions: Vec::new() },
        state,
        events: Vec::new(),
        graph: None,
    }
}

/// An event with a new id and the payload `{}`.
pub(crate) fn event(bench: &ConformanceBench, key: &ExecutionKey, event_name: &str) -> EventSubmission {
    EventSubmission {
        event_id: bench.event_id(),
        execution: key.clone(),
        name: name(event_name),
        payload: raw("{}"),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some("tester".to_owned()),
        traceparent: None,
    }
}

pub(crate) fn keyed(event: EventSubmission, key: &str, hash: u8) -> EventSubmission {
    EventSubmission {
        idempotency: Some(IdempotencyKey { key: key.to_owned(), request_hash: [hash; 32] }),
        ..event
    }
}

impl ConformanceBench {
    pub(crate) async fn append(&self, batch: &[AppendRequest]) -> Vec<Appended> {
        let now = self.now().await;
        let verdicts = self.stores.events.append(batch, now).await.unwrap();
        assert_eq!(verdicts.len(), batch.len(), "one verdict per item");
        verdicts
    }

    pub(crate) async fn append_one(&self, item: AppendRequest) -> Appended {
        self.append(&[item]).await.remove(0)
    }

    pub(crate) async fn append_event(&self, event: &EventSubmission) -> Appended {
        self.append_one(AppendRequest::Event(event.clone())).await
    }

    /// Start an execution and return its state.
    pub(crate) async fn start(&self, key: &ExecutionKey) -> ExecutionState {
        let new = new_execution(self, key, self.now().await);
        self.start_as(new).await
    }

    pub(crate) async fn start_as(&self, new: ExecutionStart) -> ExecutionState {
        let state = new.state.clone();
        let verdict = self.append_one(AppendRequest::Start(Box::new(new))).await;
        assert!(matches!(verdict, Appended::Accepted { .. }), "{verdict:?}");
        state
    }

    /// Post an event and return its id.
    pub(crate) async fn post(&self, key: &ExecutionKey, event_name: &str) -> EventId {
        let event = event(self, key, event_name);
        let verdict = self.append_event(&event).await;
        assert!(matches!(verdict, Appended::Accepted { .. }), "{verdict:?}");
        event.event_id
    }

    pub(crate) async fn load(&self, key: &ExecutionKey, known: Option<CachedVersion>) -> LoadedExecution {
        self.load_within(key, known, MailboxLimits::default()).await
    }

    pub(crate) async fn load_within(
        &self,
        key: &ExecutionKey,
        known: Option<CachedVersion>,
        limits: MailboxLimits,
    ) -> LoadedExecution {
        let wanted = [LoadRequest { execution: key.clone(), known }];
        match self.stores.executions.load_executions(&wanted, limits).await.unwrap().remove(0) {
            LoadVerdict::Found(found) => *found,
            other @ (LoadVerdict::Missing | LoadVerdict::Corrupt { .. }) => {
                panic!("{key} is not there: {other:?}")
            }
        }
    }

    pub(crate) async fn mailbox(&self, key: &ExecutionKey) -> Vec<EventId> {
        ids(&self.load(key, None).await.mailbox)
    }

    pub(crate) async fn event(&self, key: &ExecutionKey, event: EventId) -> EventView {
        let keys = [(key.tenant.clone(), event)];
        self.stores.event_views.find_events(&keys).await.unwrap().remove(0).expect("the event is there")
    }

    pub(crate) async fn execution(&self, key: &ExecutionKey) -> ExecutionView {
        let keys = std::slice::from_ref(key);
        self.stores
            .execution_views
            .find_executions(keys)
            .await
            .unwrap()
            .remove(0)
            .expect("the execution is there")
    }

    pub(crate) async fn actions(&self, key: &ExecutionKey) -> Vec<ActionRecord> {
        self.stores.execution_views.list_actions(key, None, usize::MAX).await.unwrap()
    }

    pub(crate) async fn action(&self, key: &ExecutionKey, action: &str) -> ActionRecord {
        let action = name(action);
        self.actions(key)
            .await
            .into_iter()
            .find(|view| view.key.action == action)
            .expect("the action is there")
    }

    /// The names of the armed timers, the next one first.
    pub(crate) async fn timers(&self, key: &ExecutionKey) -> Vec<String> {
        let timers = self.stores.execution_views.list_timers(key, None, usize::MAX).await.unwrap();
        timers.iter().map(|timer| timer.send.to_string()).collect()
    }
}

pub(crate) fn ids(mailbox: &[MailboxEvent]) -> Vec<EventId> {
    mailbox.iter().map(|waiting| waiting.event_id).collect()
}
