//! Tests of re-decision and of the storage round trip.

use uuid::Uuid;

use super::cases::*;
use crate::id::{EventId, Seq};
use crate::log::{ArmedTimer, State};
use crate::machine::{Machine, Recorded, create, redecide};
use crate::raw::RawJson;

fn history(machine: &Machine) -> Vec<Recorded> {
    let (created, mut state) = create(machine, EventId(Uuid::nil()), &json(ORDER), at(0)).unwrap();
    let mut history =
        vec![Recorded { transition: created.transition, payload: json(ORDER), accepted_at: at(0) }];
    for (n, sent) in
        [event(1, "pay", r#"{"amount":40}"#), event(2, "pay", r#"{"amount":60}"#), event(3, "charged", "{}")]
            .iter()
            .enumerate()
    {
        let turn = run(machine, state, std::slice::from_ref(sent));
        let done = applied(turn.outcomes[0].1.clone());
        assert_eq!(done.transition.seq, Seq(i64::try_from(n).unwrap() + 2));
        history.push(Recorded {
            transition: done.transition,
            payload: sent.payload.clone(),
            accepted_at: at(0),
        });
        state = turn.state;
    }
    history
}

#[test]
fn deciding_history_again_gives_the_same() {
    let machine = order();
    assert_eq!(redecide(&machine, &history(&machine)), []);
}

#[test]
fn a_changed_definition_shows_as_differences() {
    let history = history(&order());
    let changed = include_str!("../../../../../examples/order.yaml")
        .replace("event.payload.amount >= context.total", "event.payload.amount >= 10")
        .replace("charged: { to: ready }", "charged: { to: ready, if: 'false' }");
    let differences = redecide(&machine(&changed), &history);
    let lines: Vec<_> =
        differences.iter().map(|d| format!("{} {}: {} / {}", d.seq, d.part, d.recorded, d.decided)).collect();
    assert_eq!(
        lines,
        [
            "2 branch: 1 / 0",
            "2 to: \"underpaid\" / \"paid\"",
            "2 actions: [] / [\"charge\",\"receipt\"]",
            "4 outcome: applied / rejected: no condition of \"charged\" holds in state \"paid\"",
        ]
    );
}

#[test]
fn stored_transitions_and_states_are_read_back() {
    let machine = order();
    let (created, state) = create(&machine, EventId(Uuid::nil()), &json(ORDER), at(0)).unwrap();
    let decision = &created.transition.decision;
    assert_eq!(RawJson::of(decision).decode::<crate::log::Decision>().unwrap(), *decision);
    assert_eq!(RawJson::of(&state).decode::<State>().unwrap(), state);
    assert_eq!(decision.timers[0].armed_seq, ArmedTimer::EXECUTION_TIMEOUT);
}
