//! Tests of single steps.

use millstream_model::context::MAX_CONTEXT_BYTES;
use millstream_model::id::{EventId, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;
use uuid::Uuid;

use super::cases::*;
use crate::log::{MailboxEvent, StateEntry};
use crate::machine::{Machine, create_execution, evolve, step};

#[test]
fn creation_is_the_first_transition() {
    let machine = order();
    let (created, state) = create_execution(&machine, EventId(Uuid::nil()), &json(ORDER), at(0)).unwrap();
    let transition = &created.transition;
    assert_eq!((transition.seq, transition.name.as_str()), (Seq(1), "millstream.start"));
    assert_eq!((&transition.decision.from, transition.decision.to.as_str()), (&None, "received"));
    assert_eq!(state.entered_seq, Seq(1));
    let context: Vec<_> = state.context.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(context, ["order_id=\"o-1\"", "paid=0", "total=100"]);
    let timers: Vec<_> =
        transition.decision.timers.iter().map(|t| (t.armed_seq.0, t.send.as_str(), t.fire_at)).collect();
    assert_eq!(timers, [(0, "millstream.timeout", at(30 * 86_400)), (1, "expire", at(1800))],);
}

#[test]
fn execution_input_must_be_an_object() {
    let machine = order();
    assert!(create_execution(&machine, EventId(Uuid::nil()), &RawJson::null(), at(0)).is_ok());
    for input in ["[]", "1", "\"x\"", "true"] {
        let rejection = create_execution(&machine, EventId(Uuid::nil()), &json(input), at(0)).unwrap_err();
        assert_eq!(rejection.to_string(), "the input must be an object");
    }
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_CONTEXT_BYTES));
    assert!(create_execution(&machine, EventId(Uuid::nil()), &json(&large), at(0)).is_err());
}

#[test]
fn first_matching_alternative_is_taken() {
    let machine = order();
    let state = start(&machine, ORDER);
    let paid = applied(step(&machine, &state, &event(1, "pay", r#"{"amount":100}"#), at(1)));
    assert_eq!((paid.transition.decision.branch, paid.transition.decision.to.as_str()), (0, "paid"));
    let short = applied(step(&machine, &state, &event(1, "pay", r#"{"amount":99.5}"#), at(1)));
    assert_eq!((short.transition.decision.branch, short.transition.decision.to.as_str()), (1, "underpaid"));
    assert_eq!(short.transition.decision.set["paid"].as_str(), "99.5");
}

#[test]
fn failing_condition_rejects_event() {
    let machine = order();
    let state = start(&machine, ORDER);
    assert_eq!(
        reason(step(&machine, &state, &event(1, "pay", "{}"), at(1))),
        "the condition of \"pay\"[0] in state \"received\" failed: there is no event.payload.amount"
    );
    assert_eq!(
        reason(step(&machine, &state, &event(1, "pay", r#"{"amount":"much"}"#), at(1))),
        "the condition of \"pay\"[0] in state \"received\" failed: cannot compute a string >= an int"
    );
}

#[test]
fn event_without_matching_guard_is_rejected() {
    let machine =
        machine("{name: x, initial: a, states: {a: {on: {go: {if: 'false', to: b}}}, b: {final: true}}}");
    let state = start(&machine, "null");
    assert_eq!(
        reason(step(&machine, &state, &event(1, "go", "null"), at(1))),
        "no condition of \"go\" holds in state \"a\""
    );
}

#[test]
fn set_reads_context_before_transition() {
    let machine = machine(
        "{name: x, initial: a, context: {a: 1, b: 2}, states: {a: {on: {swap: {set: {a: context.b, b: context.a}}}}}}",
    );
    let turn = run(&machine, start(&machine, "null"), &[event(1, "swap", "null")]);
    assert_eq!((turn.state.context["a"].as_str(), turn.state.context["b"].as_str()), ("2", "1"));
}

#[test]
fn self_transition_rearms_timers() {
    let machine = machine(
        "{name: x, initial: a, states: {a: {on: {stay: {}, again: {to: a}, late: {to: b}}, after: [{in: 5s, send: late}]}, b: {final: true}}}",
    );
    let state = start(&machine, "null");
    let stay = applied(step(&machine, &state, &event(1, "stay", "null"), at(1))).transition;
    assert_eq!((stay.decision.entered, stay.decision.timers.len()), (StateEntry::Stayed, 0));
    let stayed = evolve(Some(state.clone()), &stay);
    assert_eq!((stayed.seq, stayed.entered_seq), (Seq(2), Seq(1)));
    applied(step(&machine, &stayed, &timer(9, "late", 1), at(2)));

    let again = applied(step(&machine, &state, &event(1, "again", "null"), at(1))).transition;
    assert_eq!((again.decision.entered, again.decision.timers[0].armed_seq), (StateEntry::Entered, Seq(2)));
    let entered = evolve(Some(state), &again);
    assert!(reason(step(&machine, &entered, &timer(9, "late", 1), at(2))).starts_with("stale timer"));
    applied(step(&machine, &entered, &timer(9, "late", 2), at(2)));
}

#[test]
fn posted_timeout_event_is_unhandled() {
    let machine = order();
    let outcome = step(&machine, &start(&machine, ORDER), &event(1, "millstream.timeout", "null"), at(1));
    assert_eq!(reason(outcome), "state \"received\" does not handle \"millstream.timeout\"");
}

#[test]
fn transition_time_never_decreases() {
    let machine = machine("{name: x, initial: a, states: {a: {on: {t: {set: {at: now, of: event.time}}}}}}");
    let state = create_execution(&machine, EventId(Uuid::nil()), &RawJson::null(), at(100)).unwrap().1;
    let transition = applied(step(&machine, &state, &event(1, "t", "null"), at(50))).transition;
    assert_eq!(transition.at, at(100));
    assert_eq!(transition.decision.set["at"].as_str(), format!("\"{}\"", at(100)));
    assert_eq!(transition.decision.set["of"].as_str(), format!("\"{}\"", at(0)));
}

#[test]
fn oversized_context_rejects_event() {
    let machine = machine(
        "{name: x, initial: a, context: {a: 1}, states: {a: {on: {put: {set: {a: event.payload, b: event.payload}}}}}}",
    );
    let half = format!("\"{}\"", "x".repeat(MAX_CONTEXT_BYTES / 2 - 64));
    let state = start(&machine, "null");
    let kept = run(&machine, state.clone(), &[event(1, "put", &half)]).state;
    assert!(kept.context_bytes() <= MAX_CONTEXT_BYTES);
    // Replacing the existing values fits; adding slightly more than half does not.
    applied(step(&machine, &kept, &event(2, "put", &half), at(1)));
    let more = format!("\"{}\"", "x".repeat(MAX_CONTEXT_BYTES / 2));
    assert_eq!(
        reason(step(&machine, &state, &event(1, "put", &more), at(1))),
        "the context would be larger than 256 KiB"
    );
}

#[test]
fn context_nesting_is_bounded() {
    let machine =
        machine("{name: x, initial: a, context: {a: 1}, states: {a: {on: {wrap: {set: {a: [context.a]}}}}}}");
    let wraps: Vec<_> = (0..70).map(|n| event(n, "wrap", "null")).collect();
    let turn = run(&machine, start(&machine, "null"), &wraps);
    let last = reason(turn.outcomes.last().unwrap().1.clone());
    assert_eq!(last, "setting \"a\" failed: the value is nested deeper than 64 levels");
    assert_eq!(turn.state.seq, Seq(65));
}

#[test]
fn deep_result_cannot_enter_context() {
    let machine =
        machine("{name: x, initial: a, states: {a: {on: {put: {set: {a: event.payload.result}}}}}}");
    // An action's result wraps a server's response, so it may be deeper than a client's payload.
    let deep = format!("{{\"result\":{}{}}}", "[".repeat(65), "]".repeat(65));
    let put = MailboxEvent { payload: RawJson::from_trusted_text(deep), ..event(1, "put", "null") };
    let outcome = step(&machine, &start(&machine, "null"), &put, at(1));
    assert_eq!(reason(outcome), "setting \"a\" failed: the value is nested deeper than 64 levels");
}

#[test]
fn initial_state_may_be_final() {
    let machine = machine("{name: x, initial: a, timeout: 1h, states: {a: {final: true}}}");
    let (created, state) = create_execution(&machine, EventId(Uuid::nil()), &RawJson::null(), at(0)).unwrap();
    assert_eq!((state.phase, created.transition.decision.timers.len()), (ExecutionPhase::Completed, 0));
}

#[test]
fn machine_knows_its_events() {
    let machine = order();
    for (event, mentioned) in
        [("pay", true), ("ship", true), ("expire", true), ("pya", false), ("millstream.cancel", false)]
    {
        assert_eq!(machine.knows_event(&name(event)), mentioned, "{event}");
    }
    assert!(machine.handles_event(&name("received"), &name("pay")));
    assert!(machine.handles_event(&name("paid"), &name("ship")), "deferred counts");
    assert!(!machine.handles_event(&name("received"), &name("ship")));
    assert!(!machine.handles_event(&name("nowhere"), &name("pay")));
}

#[test]
fn machine_is_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    shared::<Machine>();
}
