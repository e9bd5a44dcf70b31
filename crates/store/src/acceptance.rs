//! Acceptance: whether a submission is new, a repeat of an earlier one, or refused; and where a signal goes. Pure;
//! shared by every backend.
//!
//! A submission is recognised by its idempotency key; else by its event id, because an append whose outcome was in
//! doubt is repeated with the same ids; else, for a start, by the id of its execution. A key outlives its event and
//! its execution, so it is judged first.
//!
//! The facts are asked for one after the other, and no further than the judgement needs: a backend reads a row, or
//! looks at what it has read for the batch. Each item must see the writes of the items before it.

use millstream_model::id::{EventId, ExecutionKey, TenantId};
use millstream_model::status::EventStatus;

use crate::event_log::{Appended, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission};

/// What the store knows about submissions. `Error` is a failure to read; what is missing is `None`.
pub trait AcceptanceFacts {
    type Error;

    fn used_key(&mut self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<UsedKey>, Self::Error>;

    fn event_status(
        &mut self,
        tenant: &TenantId,
        event_id: EventId,
    ) -> Result<Option<EventStatus>, Self::Error>;

    fn has_execution(&mut self, execution: &ExecutionKey) -> Result<bool, Self::Error>;

    fn known_start(&mut self, execution: &ExecutionKey) -> Result<Option<KnownStart>, Self::Error>;

    fn is_buffered(&mut self, tenant: &TenantId, signal: EventId) -> Result<bool, Self::Error>;

    /// The unfinished executions with the correlation, and of the definition if the signal names one.
    fn signal_receivers(&mut self, signal: &SignalSubmission) -> Result<Vec<ExecutionKey>, Self::Error>;
}

/// The first use of an idempotency key.
#[derive(Debug, Clone)]
pub struct UsedKey {
    pub request_hash: Vec<u8>,
    pub event_id: EventId,
    /// See [`used_key_status`].
    pub status: EventStatus,
}

/// The start of an existing execution.
#[derive(Debug, Clone)]
pub struct KnownStart {
    pub input_hash: Vec<u8>,
    /// `None`: it was created without a request.
    pub event_id: Option<EventId>,
}

/// What to write for a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalJudgement {
    /// Nothing.
    Answer(Appended),
    /// An event of this execution, and the key.
    Deliver(ExecutionKey),
    /// The signal, and the key: no execution has the correlation yet.
    Buffer,
}

impl UsedKey {
    /// The answer to a request with this key.
    pub fn answer_request(&self, asked: &IdempotencyKey) -> Appended {
        if self.request_hash != asked.request_hash {
            return Appended::Mismatch;
        }
        Appended::Repeat { event_id: self.event_id, status: self.status }
    }
}

/// The status of the event of a used key. The event of a buffered signal is yet to come; an event that retention has
/// removed was final.
pub fn used_key_status(event: Option<EventStatus>, is_buffered: bool) -> EventStatus {
    match (event, is_buffered) {
        (Some(status), _) => status,
        (None, true) => EventStatus::Pending,
        (None, false) => EventStatus::Completed,
    }
}

/// `None`: it is new, and is to be written with its key.
pub fn judge_event<F: AcceptanceFacts>(
    facts: &mut F,
    event: &EventSubmission,
) -> Result<Option<Appended>, F::Error> {
    match find_repeat(facts, &event.execution.tenant, event.event_id, event.idempotency.as_ref())? {
        Some(repeat) => Ok(Some(repeat)),
        None => judge_unseen_event(facts, event),
    }
}

/// [`judge_event`] for an event without a key, of a backend whose write detects an id that exists.
pub fn judge_unseen_event<F: AcceptanceFacts>(
    facts: &mut F,
    event: &EventSubmission,
) -> Result<Option<Appended>, F::Error> {
    Ok(if facts.has_execution(&event.execution)? { None } else { Some(Appended::NoExecution) })
}

/// `None`: it is new, and is to be written with its key.
pub fn judge_start<F: AcceptanceFacts>(
    facts: &mut F,
    start: &ExecutionStart,
) -> Result<Option<Appended>, F::Error> {
    let event = &start.start;
    let repeat = find_repeat(facts, &start.key.tenant, event.event_id, event.idempotency.as_ref())?;
    if repeat.is_some() {
        return Ok(repeat);
    }
    let Some(known) = facts.known_start(&start.key)? else { return Ok(None) };
    Ok(Some(match known.event_id {
        // A start has no actions: it is applied and completed when it is accepted.
        Some(event_id) if known.input_hash == start.input_hash => {
            Appended::Repeat { event_id, status: EventStatus::Completed }
        }
        Some(_) | None => Appended::Mismatch,
    }))
}

pub fn judge_signal<F: AcceptanceFacts>(
    facts: &mut F,
    signal: &SignalSubmission,
) -> Result<SignalJudgement, F::Error> {
    let (tenant, event_id) = (&signal.tenant, signal.event_id);
    if let Some(repeat) = find_repeat(facts, tenant, event_id, signal.idempotency.as_ref())? {
        return Ok(SignalJudgement::Answer(repeat));
    }
    if facts.is_buffered(tenant, event_id)? {
        let status = EventStatus::Pending;
        return Ok(SignalJudgement::Answer(Appended::Repeat { event_id, status }));
    }
    let mut receivers = facts.signal_receivers(signal)?;
    Ok(match (receivers.pop(), receivers.len()) {
        (None, _) => SignalJudgement::Buffer,
        (Some(execution), 0) => SignalJudgement::Deliver(execution),
        (Some(_), others) => SignalJudgement::Answer(Appended::Ambiguous { executions: others + 1 }),
    })
}

fn find_repeat<F: AcceptanceFacts>(
    facts: &mut F,
    tenant: &TenantId,
    event_id: EventId,
    key: Option<&IdempotencyKey>,
) -> Result<Option<Appended>, F::Error> {
    if let Some(key) = key
        && let Some(used) = facts.used_key(tenant, key)?
    {
        return Ok(Some(used.answer_request(key)));
    }
    let status = facts.event_status(tenant, event_id)?;
    Ok(status.map(|status| Appended::Repeat { event_id, status }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::time::Duration;

    use millstream_model::id::{ExecutionId, Name};
    use millstream_model::raw::RawJson;
    use millstream_model::time::Timestamp;
    use millstream_workflow::log::EventOrigin;
    use uuid::Uuid;

    use super::*;

    /// Facts, and what was asked for.
    #[derive(Default)]
    struct KnownFacts {
        keys: BTreeMap<String, UsedKey>,
        events: BTreeMap<EventId, EventStatus>,
        is_buffered: bool,
        executions: Vec<ExecutionKey>,
        asked: Vec<&'static str>,
    }

    impl AcceptanceFacts for KnownFacts {
        type Error = Infallible;

        fn used_key(&mut self, _: &TenantId, key: &IdempotencyKey) -> Result<Option<UsedKey>, Infallible> {
            self.asked.push("key");
            Ok(self.keys.get(&key.key).cloned())
        }

        fn event_status(&mut self, _: &TenantId, id: EventId) -> Result<Option<EventStatus>, Infallible> {
            self.asked.push("event");
            Ok(self.events.get(&id).copied())
        }

        fn has_execution(&mut self, execution: &ExecutionKey) -> Result<bool, Infallible> {
            self.asked.push("execution");
            Ok(self.executions.contains(execution))
        }

        fn known_start(&mut self, _: &ExecutionKey) -> Result<Option<KnownStart>, Infallible> {
            self.asked.push("start");
            Ok(None)
        }

        fn is_buffered(&mut self, _: &TenantId, _: EventId) -> Result<bool, Infallible> {
            self.asked.push("buffered");
            Ok(self.is_buffered)
        }

        fn signal_receivers(&mut self, _: &SignalSubmission) -> Result<Vec<ExecutionKey>, Infallible> {
            self.asked.push("receivers");
            Ok(self.executions.clone())
        }
    }

    fn id(number: u128) -> EventId {
        EventId(Uuid::from_u128(number))
    }

    fn execution(text: &str) -> ExecutionKey {
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(text).unwrap() }
    }

    fn key(hash: u8) -> Option<IdempotencyKey> {
        Some(IdempotencyKey { key: "k".to_owned(), request_hash: [hash; 32] })
    }

    fn used(event: u128) -> BTreeMap<String, UsedKey> {
        let known =
            UsedKey { request_hash: vec![1; 32], event_id: id(event), status: EventStatus::Processing };
        [("k".to_owned(), known)].into()
    }

    fn event(number: u128, idempotency: Option<IdempotencyKey>) -> EventSubmission {
        EventSubmission {
            event_id: id(number),
            execution: execution("x"),
            name: Name::parse("pay").unwrap(),
            payload: RawJson::from_value(&1),
            origin: EventOrigin::Posted,
            idempotency,
            actor: None,
            traceparent: None,
        }
    }

    fn signal(idempotency: Option<IdempotencyKey>) -> SignalSubmission {
        SignalSubmission {
            event_id: id(7),
            tenant: TenantId::default_tenant(),
            correlation: "c".to_owned(),
            definition: None,
            name: Name::parse("pay").unwrap(),
            payload: RawJson::from_value(&1),
            idempotency,
            actor: None,
            traceparent: None,
            expires_at: Timestamp::EPOCH.plus(Duration::from_secs(1)),
        }
    }

    #[test]
    fn used_key_is_judged_before_event_id() {
        let events = BTreeMap::from([(id(2), EventStatus::Pending)]);
        let mut facts = KnownFacts { keys: used(1), events, ..KnownFacts::default() };
        let of_key = Appended::Repeat { event_id: id(1), status: EventStatus::Processing };
        assert_eq!(judge_event(&mut facts, &event(2, key(1))), Ok(Some(of_key)));
        assert_eq!(judge_event(&mut facts, &event(2, key(2))), Ok(Some(Appended::Mismatch)));
        assert_eq!(facts.asked, ["key", "key"]);
        let of_id = Appended::Repeat { event_id: id(2), status: EventStatus::Pending };
        assert_eq!(judge_event(&mut facts, &event(2, None)), Ok(Some(of_id)));
    }

    #[test]
    fn new_event_needs_its_execution() {
        let mut facts = KnownFacts::default();
        assert_eq!(judge_event(&mut facts, &event(1, key(1))), Ok(Some(Appended::NoExecution)));
        assert_eq!(facts.asked, ["key", "event", "execution"]);
        facts.executions = vec![execution("x")];
        assert_eq!(judge_event(&mut facts, &event(1, key(1))), Ok(None));
        assert_eq!(judge_unseen_event(&mut facts, &event(1, None)), Ok(None));
    }

    #[test]
    fn signal_goes_to_the_only_receiver() {
        let mut facts = KnownFacts::default();
        assert_eq!(judge_signal(&mut facts, &signal(key(1))), Ok(SignalJudgement::Buffer));
        assert_eq!(facts.asked, ["key", "event", "buffered", "receivers"]);
        facts.executions = vec![execution("x")];
        assert_eq!(judge_signal(&mut facts, &signal(None)), Ok(SignalJudgement::Deliver(execution("x"))));
        facts.executions.push(execution("y"));
        let ambiguous = SignalJudgement::Answer(Appended::Ambiguous { executions: 2 });
        assert_eq!(judge_signal(&mut facts, &signal(None)), Ok(ambiguous));
        facts.is_buffered = true;
        let repeat = Appended::Repeat { event_id: id(7), status: EventStatus::Pending };
        assert_eq!(judge_signal(&mut facts, &signal(None)), Ok(SignalJudgement::Answer(repeat)));
    }

    #[test]
    fn used_key_without_event_is_pending_while_buffered() {
        assert_eq!(used_key_status(Some(EventStatus::Failed), true), EventStatus::Failed);
        assert_eq!(used_key_status(None, true), EventStatus::Pending);
        assert_eq!(used_key_status(None, false), EventStatus::Completed);
    }
}
