//! Which items of a batch are accepted, given what the store holds already. Pure: the statements around
//! it read the facts before and check them afterwards.
//!
//! Items are judged in order, each seeing what the ones before it will have written.

use std::collections::HashMap;

use millstream_core::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_core::status::{EventStatus, Phase};
use millstream_core::time::Timestamp;
use millstream_store::event_log::{Append, Appended, Idempotency, NewEvent, NewExecution};

/// What the store holds of the things that a batch mentions.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub keys: HashMap<(TenantId, String), KnownKey>,
    pub executions: HashMap<ExecutionKey, KnownExecution>,
    pub events: HashMap<(TenantId, EventId), EventStatus>,
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
    /// Its start event, where somebody asked to start it.
    pub start: Option<EventId>,
}

/// What to write for one batch.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// In the order of the batch.
    pub verdicts: Vec<Verdict>,
    pub keys: Vec<(&'a TenantId, &'a Idempotency, EventId)>,
    pub starts: Vec<(&'a NewExecution, Numbered)>,
    /// Every event to write in order of acceptance, start events included.
    pub events: Vec<PlannedEvent<'a>>,
    /// Ended executions that must outlive this transaction.
    pub ended: Vec<&'a ExecutionKey>,
}

/// A place in [`Plan::events`], and so in the numbers taken for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbered(pub usize);

#[derive(Debug)]
pub(crate) struct PlannedEvent<'a> {
    pub event: &'a NewEvent,
    /// When a start was applied.
    pub started_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Accept(Numbered),
    Told(Appended),
}

impl Verdict {
    pub(crate) fn numbered(self, numbers: &[AcceptNo]) -> Appended {
        match self {
            Self::Accept(Numbered(place)) => Appended::Accepted { accept_no: numbers[place] },
            Self::Told(appended) => appended,
        }
    }
}

impl Facts {
    pub(crate) fn plan<'a>(mut self, batch: &'a [Append]) -> Plan<'a> {
        let mut plan = Plan::default();
        for item in batch {
            let verdict = match item {
                Append::Event(event) => self.judge_event(event, &mut plan),
                Append::Start(start) => self.judge_start(start, &mut plan),
            };
            plan.verdicts.push(verdict);
        }
        plan.ended.sort_unstable();
        plan.ended.dedup();
        plan
    }

    fn judge_event<'a>(&mut self, event: &'a NewEvent, plan: &mut Plan<'a>) -> Verdict {
        if let Some(seen) = self.seen(event) {
            return Verdict::Told(seen);
        }
        let Some(known) = self.executions.get(&event.execution) else {
            return Verdict::Told(Appended::NoExecution);
        };
        if known.phase.is_ended() {
            plan.ended.push(&event.execution);
        }
        self.take(event, None, plan)
    }

    fn judge_start<'a>(&mut self, start: &'a NewExecution, plan: &mut Plan<'a>) -> Verdict {
        if let Some(seen) = self.seen(&start.start) {
            return Verdict::Told(seen);
        }
        if let Some(known) = self.executions.get(&start.key) {
            let same = known.input_hash == start.input_hash;
            return Verdict::Told(match known.start {
                // A start has no actions: it is applied and done when it is accepted.
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
        let verdict = self.take(&start.start, Some(start.state.at), plan);
        if let Verdict::Accept(numbered) = verdict {
            plan.starts.push((start, numbered));
        }
        for event in &start.events {
            self.take(event, None, plan);
        }
        verdict
    }

    /// What a key stands for.
    pub(crate) fn by_key(&self, tenant: &TenantId, idempotency: &Idempotency) -> Option<Appended> {
        let known = self.keys.get(&(tenant.clone(), idempotency.key.clone()))?;
        Some(if known.request_hash == idempotency.request_hash {
            Appended::Repeat { event_id: known.event_id, status: known.status }
        } else {
            Appended::Mismatch
        })
    }

    /// By its key, or by its id when the outcome of an earlier call was in doubt.
    fn seen(&self, event: &NewEvent) -> Option<Appended> {
        let tenant = &event.execution.tenant;
        let by_key = event.idempotency.as_ref().and_then(|key| self.by_key(tenant, key));
        if by_key.is_some() {
            return by_key;
        }
        let status = *self.events.get(&(tenant.clone(), event.event_id))?;
        Some(Appended::Repeat { event_id: event.event_id, status })
    }

    fn take<'a>(
        &mut self,
        event: &'a NewEvent,
        started_at: Option<Timestamp>,
        plan: &mut Plan<'a>,
    ) -> Verdict {
        let tenant = &event.execution.tenant;
        let status = if started_at.is_some() { EventStatus::Completed } else { EventStatus::Pending };
        if let Some(idempotency) = &event.idempotency {
            let known = KnownKey {
                request_hash: idempotency.request_hash.to_vec(),
                event_id: event.event_id,
                status,
            };
            self.keys.insert((tenant.clone(), idempotency.key.clone()), known);
            plan.keys.push((tenant, idempotency, event.event_id));
        }
        self.events.insert((tenant.clone(), event.event_id), status);
        plan.events.push(PlannedEvent { event, started_at });
        Verdict::Accept(Numbered(plan.events.len() - 1))
    }
}
