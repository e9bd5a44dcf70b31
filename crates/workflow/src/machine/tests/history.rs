//! Tests of re-decision and of the storage round trip.

use millstream_model::id::{EventId, Seq};
use millstream_model::raw::RawJson;
use uuid::Uuid;

use super::cases::*;
use crate::log::{ArmedTimer, ExecutionState};
use crate::machine::{Machine, RecordedTransition, create_execution, redecide_history};

fn history(machine: &Machine) -> Vec<RecordedTransition> {
    let (created, mut state) = create_execution(machine, EventId(Uuid::nil()), &json(ORDER), at(0)).unwrap();
    let mut history =
        vec![RecordedTransition { transition: created.transition, payload: json(ORDER), accepted_at: at(0) }];
    for (n, sent) in
        [event(1, "pay", r#"{"amount":40}"#), event(2, "pay", r#"{"amount":60}"#), event(3, "charged", "{}")]
            .iter()
            .enumerate()
    {
        let turn = run(machine, state, std::slice::from_ref(sent));
        let done = applied(turn.outcomes[0].1.clone());
        assert_eq!(done.transition.seq, Seq(i64::try_from(n).unwrap() + 2));
        history.push(RecordedTransition {
            transition: done.transition,
            payload: sent.payload.clone(),
            accepted_at: at(0),
        });
        state = turn.state;
    }
    history
}

#[test]
fn redecided_history_has_no_differences() {
    let machine = order();
    assert_eq!(redecide_history(&machine, &history(&machine)), []);
}

#[test]
fn changed_definition_shows_differences() {
    let history = history(&order());
    let changed = include_str!("../../../../../examples/order.yaml")
        .replace("event.payload.amount >= context.total", "event.payload.amount >= 10")
        .replace("charged: { to: ready }", "charged: { to: ready, if: 'false' }");
    let differences = redecide_history(&machine(&changed), &history);
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
fn transitions_and_states_survive_storage() {
    let machine = order();
    let (created, state) = create_execution(&machine, EventId(Uuid::nil()), &json(ORDER), at(0)).unwrap();
    let decision = &created.transition.decision;
    assert_eq!(RawJson::from_value(decision).decode::<crate::log::TransitionDecision>().unwrap(), *decision);
    assert_eq!(RawJson::from_value(&state).decode::<ExecutionState>().unwrap(), state);
    assert_eq!(decision.timers[0].armed_seq, ArmedTimer::EXECUTION_TIMEOUT);
}
