//! Acceptance plan: which items of a batch are accepted, given the stored facts. Pure: the statements around
//! it read the facts before and check them afterwards.
//!
//! Items are judged in order, each seeing the planned writes of the ones before it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use millstream_core::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_core::status::{EventStatus, Phase};
use millstream_core::time::Timestamp;
use millstream_store::event_log::{Append, Appended, Idempotency, NewEvent, NewExecution, NewSignal};

use crate::signals::{self, Stored, Takers};

/// Stored facts about everything that a batch mentions.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub keys: HashMap<(TenantId, String), KnownKey>,
    pub executions: HashMap<ExecutionKey, KnownExecution>,
    pub events: HashMap<(TenantId, EventId), EventStatus>,
    /// Executions that could take the signals of the batch.
    pub takers: Takers,
    /// Which signals of the batch are buffered already.
    pub buffered: HashSet<(TenantId, EventId)>,
    /// Buffered signals for the executions that the batch starts, in order.
    pub waiting: Vec<Stored>,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownKey {
    pub request_hash: Vec<u8>,
    pub event_id: EventId,
    pub status: EventStatus,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownExecution {
    pub input_hash: Vec<u8>,
    pub phase: Phase,
    /// Its start event, if there is a request to start it.
    pub start: Option<EventId>,
}

/// What to write for one batch.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// In the order of the batch.
    pub verdicts: Vec<Verdict>,
    pub keys: Vec<(&'a TenantId, &'a Idempotency, EventId)>,
    /// Signals to buffer.
    pub buffered: Vec<&'a NewSignal>,
    /// Buffered signals that become events.
    pub delivered: Vec<i64>,
    pub starts: Vec<(&'a NewExecution, Numbered)>,
    /// Every event to write in order of acceptance, start events included.
    pub events: Vec<PlannedEvent<'a>>,
    /// Ended executions that retention must not remove during this transaction.
    pub ended: Vec<&'a ExecutionKey>,
}

/// An index into [`Plan::events`], and so into the numbers taken for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbered(pub usize);

#[derive(Debug)]
pub(crate) struct PlannedEvent<'a> {
    pub event: Cow<'a, NewEvent>,
    /// When a start was applied.
    pub started_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Accept(Numbered),
    Deliver(ExecutionKey, Numbered),
    Told(Appended),
}

impl Verdict {
    pub(crate) fn numbered(self, numbers: &[AcceptNo]) -> Appended {
        match self {
            Self::Accept(Numbered(place)) => Appended::Accepted { accept_no: numbers[place] },
            Self::Deliver(execution, Numbered(place)) => {
                Appended::Delivered { execution, accept_no: numbers[place] }
            }
            Self::Told(appended) => appended,
        }
    }
}

impl Plan<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.buffered.is_empty()
    }
}

impl Facts {
    pub(crate) fn plan<'a>(mut self, batch: &'a [Append]) -> Plan<'a> {
        let mut plan = Plan::default();
        for item in batch {
            let verdict = match item {
                Append::Event(event) => self.judge_event(event, &mut plan),
                Append::Start(start) => self.judge_start(start, &mut plan),
                Append::Signal(signal) => self.judge_signal(signal, &mut plan),
            };
            plan.verdicts.push(verdict);
        }
        plan.ended.sort_unstable();
        plan.ended.dedup();
        plan
    }

    fn judge_event<'a>(&mut self, event: &'a NewEvent, plan: &mut Plan<'a>) -> Verdict {
        if let Some(seen) = self.seen_event(event) {
            return Verdict::Told(seen);
        }
        let Some(known) = self.executions.get(&event.execution) else {
            return Verdict::Told(Appended::NoExecution);
        };
        if known.phase.is_ended() {
            plan.ended.push(&event.execution);
        }
        Verdict::Accept(self.take(event, None, plan))
    }

    fn judge_start<'a>(&mut self, start: &'a NewExecution, plan: &mut Plan<'a>) -> Verdict {
        if let Some(seen) = self.seen_event(&start.start) {
            return Verdict::Told(seen);
        }
        if let Some(known) = self.executions.get(&start.key) {
            let same = known.input_hash == start.input_hash;
            return Verdict::Told(match known.start {
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
        let numbered = self.take(&start.start, Some(start.state.at), plan);
        plan.starts.push((start, numbered));
        for event in &start.events {
            self.take(event, None, plan);
        }
        if let Some(correlation) =
            start.state.correlation.as_deref().filter(|_| !start.state.phase.is_ended())
        {
            self.correlate(start, correlation, plan);
        }
        Verdict::Accept(numbered)
    }

    /// From here on signals find this execution, and it receives the signals buffered for it.
    fn correlate<'a>(&mut self, start: &'a NewExecution, correlation: &str, plan: &mut Plan<'a>) {
        let (tenant, definition) = (&start.key.tenant, &start.definition.name);
        let takers = self.takers.entry((tenant.clone(), correlation.to_owned())).or_default();
        takers.push((start.key.clone(), definition.clone()));
        let is_for_it = |signal: &NewSignal| {
            signal.tenant == *tenant
                && signal.correlation == correlation
                && signal.definition.as_ref().is_none_or(|name| name == definition)
        };
        let waiting = self.waiting.extract_if(.., |stored| is_for_it(&stored.signal));
        let mut events = Vec::new();
        for Stored { id, signal, .. } in waiting {
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

    fn judge_signal<'a>(&mut self, signal: &'a NewSignal, plan: &mut Plan<'a>) -> Verdict {
        let tenant = &signal.tenant;
        if let Some(seen) = self.seen(tenant, signal.event_id, signal.idempotency.as_ref()) {
            return Verdict::Told(seen);
        }
        let id = (tenant.clone(), signal.event_id);
        if self.buffered.contains(&id) {
            let status = EventStatus::Pending;
            return Verdict::Told(Appended::Repeat { event_id: signal.event_id, status });
        }
        let takers = self.takers.get(&(tenant.clone(), signal.correlation.clone()));
        let fits = |name| signal.definition.as_ref().is_none_or(|wanted| wanted == name);
        let mut takers =
            takers.into_iter().flatten().filter(|(_, name)| fits(name)).map(|(key, _)| key.clone());
        let verdict = match (takers.next(), takers.count()) {
            (None, _) => {
                self.buffered.insert(id);
                plan.buffered.push(signal);
                Verdict::Told(Appended::Buffered)
            }
            (Some(execution), 0) => {
                self.events.insert(id, EventStatus::Pending);
                let event = Cow::Owned(signals::as_event(signal, &execution));
                plan.events.push(PlannedEvent { event, started_at: None });
                Verdict::Deliver(execution, Numbered(plan.events.len() - 1))
            }
            (Some(_), others) => return Verdict::Told(Appended::Ambiguous { executions: others + 1 }),
        };
        self.use_key(tenant, signal.idempotency.as_ref(), signal.event_id, EventStatus::Pending, plan);
        verdict
    }

    /// The result of an earlier request with this key.
    pub(crate) fn by_key(&self, tenant: &TenantId, idempotency: &Idempotency) -> Option<Appended> {
        let known = self.keys.get(&(tenant.clone(), idempotency.key.clone()))?;
        Some(if known.request_hash == idempotency.request_hash {
            Appended::Repeat { event_id: known.event_id, status: known.status }
        } else {
            Appended::Mismatch
        })
    }

    fn seen_event(&self, event: &NewEvent) -> Option<Appended> {
        self.seen(&event.execution.tenant, event.event_id, event.idempotency.as_ref())
    }

    /// By its key, or by its id when the outcome of an earlier call was in doubt.
    fn seen(
        &self,
        tenant: &TenantId,
        event_id: EventId,
        idempotency: Option<&Idempotency>,
    ) -> Option<Appended> {
        let by_key = idempotency.and_then(|key| self.by_key(tenant, key));
        if by_key.is_some() {
            return by_key;
        }
        let status = *self.events.get(&(tenant.clone(), event_id))?;
        Some(Appended::Repeat { event_id, status })
    }

    fn take<'a>(
        &mut self,
        event: &'a NewEvent,
        started_at: Option<Timestamp>,
        plan: &mut Plan<'a>,
    ) -> Numbered {
        let tenant = &event.execution.tenant;
        let status = if started_at.is_some() { EventStatus::Completed } else { EventStatus::Pending };
        self.use_key(tenant, event.idempotency.as_ref(), event.event_id, status, plan);
        self.events.insert((tenant.clone(), event.event_id), status);
        plan.events.push(PlannedEvent { event: Cow::Borrowed(event), started_at });
        Numbered(plan.events.len() - 1)
    }

    fn use_key<'a>(
        &mut self,
        tenant: &'a TenantId,
        idempotency: Option<&'a Idempotency>,
        event_id: EventId,
        status: EventStatus,
        plan: &mut Plan<'a>,
    ) {
        let Some(idempotency) = idempotency else { return };
        let known = KnownKey { request_hash: idempotency.request_hash.to_vec(), event_id, status };
        self.keys.insert((tenant.clone(), idempotency.key.clone()), known);
        plan.keys.push((tenant, idempotency, event_id));
    }
}
