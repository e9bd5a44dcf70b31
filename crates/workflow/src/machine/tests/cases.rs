//! Fixtures: a machine, a state, events, and outcomes in short form.

use millstream_model::document::SourceFormat;
use millstream_model::id::{AcceptNo, EventId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use uuid::Uuid;

use crate::definition_parser::parse;
use crate::log::{
    AppliedEvent, EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState, VisitDecisions,
};
use crate::machine::{Machine, create_execution, decide_mailbox};

pub(super) fn machine(source: &str) -> Machine {
    let definition = parse(source, SourceFormat::Yaml).unwrap_or_else(|problems| panic!("{problems}"));
    Machine::compile(definition).unwrap()
}

pub(super) fn order() -> Machine {
    machine(include_str!("../../../../../examples/order.yaml"))
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(super) fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000)
}

pub(super) fn event(number: u128, event: &str, payload: &str) -> MailboxEvent {
    MailboxEvent {
        event_id: EventId(Uuid::from_u128(number)),
        accept_no: AcceptNo(i64::try_from(number).unwrap()),
        name: name(event),
        payload: json(payload),
        accepted_at: at(0),
        origin: EventOrigin::Posted,
        kept: MailboxState::Undecided,
        attempts: 0,
        traceparent: None,
    }
}

pub(super) fn timer(number: u128, send: &str, armed_seq: i64) -> MailboxEvent {
    MailboxEvent { origin: EventOrigin::Timer { armed_seq: Seq(armed_seq) }, ..event(number, send, "null") }
}

pub(super) fn deferred(event: MailboxEvent) -> MailboxEvent {
    MailboxEvent { kept: MailboxState::Deferred, ..event }
}

pub(super) fn start(machine: &Machine, input: &str) -> ExecutionState {
    create_execution(machine, EventId(Uuid::nil()), &json(input), at(0)).unwrap().1
}

pub(super) fn run(machine: &Machine, state: ExecutionState, mailbox: &[MailboxEvent]) -> VisitDecisions {
    decide_mailbox(machine, state, mailbox, PauseState::Running, at(1))
}

pub(super) fn applied(outcome: EventOutcome) -> AppliedEvent {
    match outcome {
        EventOutcome::Applied(applied) => *applied,
        EventOutcome::Rejected { reason } => panic!("rejected: {reason}"),
        EventOutcome::Deferred => panic!("deferred"),
    }
}

pub(super) fn reason(outcome: EventOutcome) -> String {
    match outcome {
        EventOutcome::Rejected { reason } => reason,
        EventOutcome::Applied(_) | EventOutcome::Deferred => panic!("not rejected: {outcome:?}"),
    }
}

/// `1 → paid`, `2 ✗ reason`, `3 …` for deferred.
pub(super) fn outcome_lines(turn: &VisitDecisions) -> Vec<String> {
    turn.outcomes
        .iter()
        .map(|(id, outcome)| match outcome {
            EventOutcome::Applied(applied) => {
                format!("{} → {}", id.0.as_u128(), applied.transition.decision.to)
            }
            EventOutcome::Rejected { reason } => format!("{} ✗ {reason}", id.0.as_u128()),
            EventOutcome::Deferred => format!("{} …", id.0.as_u128()),
        })
        .collect()
}

pub(super) const ORDER: &str = r#"{"order_id":"o-1","total":100}"#;
