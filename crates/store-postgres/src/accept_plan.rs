//! Acceptance plan: what to write for the items of a batch, given the stored facts. Pure: the statements around
//! it read the facts before and check them afterwards.
//!
//! Items are judged in order ([`millstream_store::acceptance`]), each seeing the planned writes of the ones before it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use millstream_model::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::acceptance::{self, AcceptanceFacts, KnownStart, SignalJudgement, UsedKey};
use millstream_store::event_log::{
    AppendRequest, Appended, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission,
};

use crate::signals::{BufferedSignal, SignalTakers};

/// Stored facts about everything that a batch mentions.
#[derive(Debug, Default)]
pub(crate) struct AcceptFacts {
    pub keys: HashMap<(TenantId, String), UsedKey>,
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
pub(crate) struct KnownExecution {
    pub phase: ExecutionPhase,
    /// With its event, if there is a request to start it.
    pub start: KnownStart,
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
        let Ok(judged) = acceptance::judge_event(self, event);
        if let Some(answer) = judged {
            return AcceptVerdict::Told(answer);
        }
        if self.executions.get(&event.execution).is_some_and(|known| known.phase.is_ended()) {
            plan.ended.push(&event.execution);
        }
        AcceptVerdict::Accept(self.take_signal(event, None, plan))
    }

    fn judge_start<'a>(&mut self, start: &'a ExecutionStart, plan: &mut AcceptPlan<'a>) -> AcceptVerdict {
        let Ok(judged) = acceptance::judge_start(self, start);
        if let Some(answer) = judged {
            return AcceptVerdict::Told(answer);
        }
        let known = KnownExecution {
            phase: start.state.phase,
            start: KnownStart { input_hash: start.input_hash.to_vec(), event_id: Some(start.start.event_id) },
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
                && signal.fits_definition(definition)
        };
        let waiting = self.waiting.extract_if(.., |stored| is_for_it(&stored.signal));
        let mut events = Vec::new();
        for BufferedSignal { id, signal, .. } in waiting {
            plan.delivered.push(id);
            events.push(signal.as_event(&start.key));
        }
        // Signals of the batch itself follow the stored ones.
        let brought = plan.buffered.extract_if(.., |signal| is_for_it(signal));
        events.extend(brought.map(|signal| signal.as_event(&start.key)));
        for event in events {
            self.events.insert((tenant.clone(), event.event_id), EventStatus::Pending);
            plan.events.push(PlannedEvent { event: Cow::Owned(event), started_at: None });
        }
    }

    fn judge_signal<'a>(&mut self, signal: &'a SignalSubmission, plan: &mut AcceptPlan<'a>) -> AcceptVerdict {
        let tenant = &signal.tenant;
        let id = (tenant.clone(), signal.event_id);
        let Ok(judged) = acceptance::judge_signal(self, signal);
        let verdict = match judged {
            SignalJudgement::Answer(answer) => return AcceptVerdict::Told(answer),
            SignalJudgement::Buffer => {
                self.buffered.insert(id);
                plan.buffered.push(signal);
                AcceptVerdict::Told(Appended::Buffered)
            }
            SignalJudgement::Deliver(execution) => {
                self.events.insert(id, EventStatus::Pending);
                let event = Cow::Owned(signal.as_event(&execution));
                plan.events.push(PlannedEvent { event, started_at: None });
                AcceptVerdict::Deliver(execution, AcceptNoIndex(plan.events.len() - 1))
            }
        };
        self.use_key(tenant, signal.idempotency.as_ref(), signal.event_id, EventStatus::Pending, plan);
        verdict
    }

    /// The answer to an earlier request with this key.
    pub(crate) fn by_key(&self, tenant: &TenantId, idempotency: &IdempotencyKey) -> Option<Appended> {
        let known = self.keys.get(&(tenant.clone(), idempotency.key.clone()))?;
        Some(known.answer_request(idempotency))
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
        let known = UsedKey { request_hash: idempotency.request_hash.to_vec(), event_id, status };
        self.keys.insert((tenant.clone(), idempotency.key.clone()), known);
        plan.keys.push((tenant, idempotency, event_id));
    }
}

impl AcceptanceFacts for AcceptFacts {
    type Error = Infallible;

    fn used_key(&mut self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<UsedKey>, Infallible> {
        Ok(self.keys.get(&(tenant.clone(), key.key.clone())).cloned())
    }

    fn event_status(
        &mut self,
        tenant: &TenantId,
        event_id: EventId,
    ) -> Result<Option<EventStatus>, Infallible> {
        Ok(self.events.get(&(tenant.clone(), event_id)).copied())
    }

    fn has_execution(&mut self, execution: &ExecutionKey) -> Result<bool, Infallible> {
        Ok(self.executions.contains_key(execution))
    }

    fn known_start(&mut self, execution: &ExecutionKey) -> Result<Option<KnownStart>, Infallible> {
        Ok(self.executions.get(execution).map(|known| known.start.clone()))
    }

    fn is_buffered(&mut self, tenant: &TenantId, signal: EventId) -> Result<bool, Infallible> {
        Ok(self.buffered.contains(&(tenant.clone(), signal)))
    }

    fn signal_receivers(&mut self, signal: &SignalSubmission) -> Result<Vec<ExecutionKey>, Infallible> {
        let takers = self.takers.get(&(signal.tenant.clone(), signal.correlation.clone()));
        let fitting = takers.into_iter().flatten().filter(|(_, name)| signal.fits_definition(name));
        Ok(fitting.map(|(execution, _)| execution.clone()).collect())
    }
}
