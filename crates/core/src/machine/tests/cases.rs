//! Fixtures: a machine, a state, events, and outcomes in short form.

use uuid::Uuid;

use crate::definition::{Format, parse};
use crate::id::{AcceptNo, EventId, Name, Seq};
use crate::log::{Applied, Kept, Origin, Outcome, State, Turn, Waiting};
use crate::machine::{Machine, create, turn};
use crate::raw::RawJson;
use crate::status::PauseState;
use crate::time::Timestamp;

pub(super) fn machine(source: &str) -> Machine {
    let definition = parse(source, Format::Yaml).unwrap_or_else(|problems| panic!("{problems}"));
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

pub(super) fn event(number: u128, event: &str, payload: &str) -> Waiting {
    Waiting {
        event_id: EventId(Uuid::from_u128(number)),
        accept_no: AcceptNo(i64::try_from(number).unwrap()),
        name: name(event),
        payload: json(payload),
        accepted_at: at(0),
        origin: Origin::Posted,
        kept: Kept::Undecided,
        attempts: 0,
        traceparent: None,
    }
}

pub(super) fn timer(number: u128, send: &str, armed_seq: i64) -> Waiting {
    Waiting { origin: Origin::Timer { armed_seq: Seq(armed_seq) }, ..event(number, send, "null") }
}

pub(super) fn deferred(event: Waiting) -> Waiting {
    Waiting { kept: Kept::Deferred, ..event }
}

pub(super) fn start(machine: &Machine, input: &str) -> State {
    create(machine, EventId(Uuid::nil()), &json(input), at(0)).unwrap().1
}

pub(super) fn run(machine: &Machine, state: State, mailbox: &[Waiting]) -> Turn {
    turn(machine, state, mailbox, PauseState::Running, at(1))
}

pub(super) fn applied(outcome: Outcome) -> Applied {
    match outcome {
        Outcome::Applied(applied) => *applied,
        Outcome::Rejected { reason } => panic!("rejected: {reason}"),
        Outcome::Deferred => panic!("deferred"),
    }
}

pub(super) fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected { reason } => reason,
        Outcome::Applied(_) | Outcome::Deferred => panic!("not rejected: {outcome:?}"),
    }
}

/// `1 → paid`, `2 ✗ reason`, `3 …` for deferred.
pub(super) fn told(turn: &Turn) -> Vec<String> {
    turn.outcomes
        .iter()
        .map(|(id, outcome)| match outcome {
            Outcome::Applied(applied) => {
                format!("{} → {}", id.0.as_u128(), applied.transition.decision.to)
            }
            Outcome::Rejected { reason } => format!("{} ✗ {reason}", id.0.as_u128()),
            Outcome::Deferred => format!("{} …", id.0.as_u128()),
        })
        .collect()
}

pub(super) const ORDER: &str = r#"{"order_id":"o-1","total":100}"#;
