//! Acceptance plan: which items of a batch are accepted, given the stored facts. Pure: the statements around
//! it read the facts before and check them afterwards.
//!
//! Items are judged in order, each seeing the planned writes of the ones before it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use millstream_model::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::event_log::{
    AppendRequest, Appended, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission,
};

use crate::signals::{self, BufferedSignal, SignalTakers};

/// Stored facts about everything that a batch mentions.
#[derive(Debug, Default)]
pub(crate) struct AcceptFacts {
    pub keys: HashMap<(TenantId, String), StoredKey>,
    pub executions: HashMap<ExecutionKey, KnownExecution>,
    pub events: HashMap<(TenantId, EventId), EventStatus>,
    /// Executions that could take the signals of the batch.
    pub takers: SignalTakers,
    /// Which signals of the batch are buffered already.
    pub buffered: HashSet<(TenantId, EventId)>,
    /// Buffered signals for the executions that the batch starts, in order.
    pub waiting: Vec<BufferedSignal>,
}

#[derive(Debug, Clone)]
pub(crate) struct StoredKey {
    pub request_hash: Vec<u8>,
    pub event_id: EventId,
    pub status: EventStatus,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownExecution {
    pub input_hash: Vec<u8>,
    pub phase: ExecutionPhase,
    /// Its start event, if there is a request to start it.
    pub start: Option<EventId>,
}

/// What to write for one batch.
#[derive(Debug, Default)]
pub(crate) struct AcceptPlan<'a> {
    /// In the order of the batch.
    pub verdicts: Vec<AcceptVerdict>,
    pub keys: Vec<(&'a TenantId, &'a IdempotencyKey, EventId)>,
    /// Signals to buffer.
    pub buffered: Vec<&'a SignalSubmission>,
    /// Buffered signals that become events.
    pub delivered: Vec<i64>,
    pub starts: Vec<(&'a ExecutionStart, AcceptNoIndex)>,
    /// Every event to write in order of acceptance, start events included.
    pub events: Vec<PlannedEvent<'a>>,
    /// Ended executions that retention must not remove during this transaction.
    pub ended: Vec<&'a ExecutionKey>,
}

/// An index into [`AcceptPlan::events`], and so into the numbers taken for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptNoIndex(pub usize);

#[derive(Debug)]
pub(crate) struct PlannedEvent<'a> {
    pub event: Cow<'a, EventSubmission>,
    /// When a start was applied.
    pub started_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) enum AcceptVerdict {
    Accept(AcceptNoIndex),
    Deliver(ExecutionKey, AcceptNoIndex),
    Told(Appended),
}

impl AcceptVerdict {
    pub(crate) fn with_numbers(self, numbers: &[AcceptNo]) -> Appended {
        match self {
            Self::Accept(AcceptNoIndex(place)) => Appended::Accepted { accept_no: numbers[place] },
            Self::Deliver(execution, AcceptNoIndex(place)) => {
                Appended::Delivered { execution, accept_no: numbers[place] }
            }
            Self::Told(appended) => appended,
        }
    }
}

impl AcceptPlan<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.buffered.is_empty()
    }
}

impl AcceptFacts {
    pub(crate) fn plan_batch<'a>(mut self, batch: &'a [AppendRequest]) -> AcceptPlan<'a> {
        let mut plan = AcceptPlan::default();
        for item in batch {
            let verdict = match item {
                AppendRequest::Event(event) => self.judge_event(event, &mut plan),
                AppendRequest::Start(start) => self.judge_start(start, &mut plan),
                AppendRequest::Signal(signal) => self.judge_signal(signal, &mut plan),
            };
            plan.verdicts.push(verdict);
        }
        plan.ended.sort_unstable();
        plan.ended.dedup();
        plan
    }

    fn judge_event<'a>(&mut self, event: &'a EventSubmission, plan: &mut AcceptPlan<'a>) -> AcceptVerdict {
        if let Some(seen) = self.seen_event(event) {
            return AcceptVerdict::Told(seen);
        }
        let Some(known) = self.executions.get(&event.execution) else {
            return AcceptVerdict::Told(Appended::NoExecution);
        };
        if known.phase.is_ended() {
            plan.ended.push(&event.execution);
        }
        AcceptVerdict::Accept(self.take_signal(event, None, plan))
    }

    fn judge_start<'a>(&mut self, start: &'a ExecutionStart, plan: &mut AcceptPlan<'a>) -> AcceptVerdict {
        if let Some(seen) = self.seen_event(&start.start) {
            return AcceptVerdict::Told(seen);
        }
        if let Some(known) = self.executions.get(&start.key) {
            let same = known.input_hash == start.input_hash;
            return AcceptVerdict::Told(match known.start {
                // A start has no actions: it is applied and completed when it is accepted.
                Some(event_id) if same => Appended::Repeat { event_id, status: EventStatus::Completed },
                Some(_) | None => Appended::Mismatch,
            });
        }
        let known = KnownExecution {
            input_hash: start.input_hash.to_vec(),
            phase: start.state.phase,
            start: Some(start.start.event_id),
        };
        self.executions.insert(start.key.clone(), known);
        let numbered = self.take_signal(&start.start, Some(start.state.at), plan);
        plan.starts.push((start, numbered));
        for event in &start.events {
            self.take_signal(event, None, plan);
        }
        if let Some(correlation) =
            start.state.correlation.as_deref().filter(|_| !start.state.phase.is_ended())
        {
            self.attach_signals(start, correlation, plan);
        }
        AcceptVerdict::Accept(numbered)
    }

    /// From here on signals find this execution, and it receives the signals buffered for it.
    fn attach_signals<'a>(
        &mut self,
        start: &'a ExecutionStart,
        correlation: &str,
        plan: &mut AcceptPlan<'a>,
    ) {
        let (tenant, definition) = (&start.key.tenant, &start.definition.name);
        let takers = self.takers.entry((tenant.clone(), correlation.to_owned())).or_default();
        takers.push((start.key.clone(), definition.clone()));
        let is_for_it = |signal: &SignalSubmission| {
            signal.tenant == *tenant
                && signal.correlation == correlation
                && signal.definition.as_ref().is_none_or(|name| name == definition)
        };
        let waiting = self.waiting.extract_if(.., |stored| is_for_it(&stored.signal));
        let mut events = Vec::new();
        for BufferedSignal { id, signal, .. } in waiting {
            plan.delivered.push(id);
            events.push(signals::as_event(&signal, &start.key));
        }
        // Signals of the batch itself follow the stored ones.
        let brought = plan.buffered.extract_if(.., |signal| is_for_it(signal));
        events.extend(brought.map(|signal| signals::as_event(signal, &start.key)));
        for event in events {
            self.events.insert((tenant.clone(), event.event_id), EventStatus::Pending);
            plan.events.push(PlannedEvent { event: Cow::Owned(event), started_at: None });
        }
    }

    fn judge_signal<'a>(&mut self, signal: &'a SignalSubmission, plan: &mut AcceptPlan<'a>) -> AcceptVerdict {
        let tenant = &signal.tenant;
        if let Some(seen) = self.find_repeat(tenant, signal.event_id, signal.idempotency.as_ref()) {
            return AcceptVerdict::Told(seen);
        }
        let id = (tenant.clone(), signal.event_id);
        if self.buffered.contains(&id) {
            let status = EventStatus::Pending;
            return AcceptVerdict::Told(Appended::Repeat { event_id: signal.event_id, status });
        }
        let takers = self.takers.get(&(tenant.clone(), signal.correlation.clone()));
        let fits = |name| signal.definition.as_ref().is_none_or(|wanted| wanted == name);
        let mut takers =
            takers.into_iter().flatten().filter(|(_, name)| fits(name)).map(|(key, _)| key.clone());
        let verdict = match (takers.next(), takers.count()) {
            (None, _) => {
                self.buffered.insert(id);
                plan.buffered.push(signal);
                AcceptVerdict::Told(Appended::Buffered)
            }
            (Some(execution), 0) => {
                self.events.insert(id, EventStatus::Pending);
                let event = Cow::Owned(signals::as_event(signal, &execution));
                plan.events.push(PlannedEvent { event, started_at: None });
                AcceptVerdict::Deliver(execution, AcceptNoIndex(plan.events.len() - 1))
            }
            (Some(_), others) => return AcceptVerdict::Told(Appended::Ambiguous { executions: others + 1 }),
        };
        self.use_key(tenant, signal.idempotency.as_ref(), signal.event_id, EventStatus::Pending, plan);
        verdict
    }

    /// The result of an earlier request with this key.
    pub(crate) fn by_key(&self, tenant: &TenantId, idempotency: &IdempotencyKey) -> Option<Appended> {
        let known = self.keys.get(&(tenant.clone(), idempotency.key.clone()))?;
        Some(if known.request_hash == idempotency.request_hash {
            Appended::Repeat { event_id: known.event_id, status: known.status }
        } else {
            Appended::Mismatch
        })
    }

    fn seen_event(&self, event: &EventSubmission) -> Option<Appended> {
        self.find_repeat(&event.execution.tenant, event.event_id, event.idempotency.as_ref())
    }

    /// By its key, or by its id when the outcome of an earlier call was in doubt.
    fn find_repeat(
        &self,
        tenant: &TenantId,
        event_id: EventId,
        idempotency: Option<&IdempotencyKey>,
    ) -> Option<Appended> {
        let by_key = idempotency.and_then(|key| self.by_key(tenant, key));
        if by_key.is_some() {
            return by_key;
        }
        let status = *self.events.get(&(tenant.clone(), event_id))?;
        Some(Appended::Repeat { event_id, status })
    }

    fn take_signal<'a>(
        &mut self,
        event: &'a EventSubmission,
        started_at: Option<Timestamp>,
        plan: &mut AcceptPlan<'a>,
    ) -> AcceptNoIndex {
        let tenant = &event.execution.tenant;
        let status = if started_at.is_some() { EventStatus::Completed } else { EventStatus::Pending };
        self.use_key(tenant, event.idempotency.as_ref(), event.event_id, status, plan);
        self.events.insert((tenant.clone(), event.event_id), status);
        plan.events.push(PlannedEvent { event: Cow::Borrowed(event), started_at });
        AcceptNoIndex(plan.events.len() - 1)
    }

    fn use_key<'a>(
        &mut self,
        tenant: &'a TenantId,
        idempotency: Option<&'a IdempotencyKey>,
        event_id: EventId,
        status: EventStatus,
        plan: &mut AcceptPlan<'a>,
    ) {
        let Some(idempotency) = idempotency else { return };
        let known = StoredKey { request_hash: idempotency.request_hash.to_vec(), event_id, status };
        self.keys.insert((tenant.clone(), idempotency.key.clone()), known);
        plan.keys.push((tenant, idempotency, event_id));
    }
}
