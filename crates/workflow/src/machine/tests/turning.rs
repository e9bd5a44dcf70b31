//! Tests of mailbox visits: order, deferral, pause, the end.

use millstream_model::id::Seq;
use millstream_model::status::{ExecutionPhase, PauseState};

use super::cases::*;
use crate::log::EventOutcome;
use crate::machine::{decide_mailbox, decide_without_definition, step};

#[test]
fn unhandled_events_are_rejected_or_deferred() {
    let machine = order();
    let state = start(&machine, ORDER);
    assert_eq!(
        reason(step(&machine, &state, &event(1, "ship", "null"), at(1))),
        "state \"received\" does not handle \"ship\""
    );
    let turn = run(&machine, state, &[event(1, "pay", r#"{"amount":100}"#)]);
    assert_eq!(step(&machine, &turn.state, &event(2, "ship", "null"), at(1)), EventOutcome::Deferred);
}

#[test]
fn stale_timer_is_rejected() {
    let machine = machine(
        "{name: x, initial: a, states: {a: {on: {pay: {to: b}, expire: {to: c}}, after: [{in: 5s, send: expire}]}, b: {on: {expire: {to: c}}}, c: {final: failed}}}",
    );
    let turn = run(&machine, start(&machine, "null"), &[event(1, "pay", "null"), timer(2, "expire", 1)]);
    assert_eq!(
        outcome_lines(&turn),
        ["1 → b", "2 ✗ stale timer: the entry at seq 1 that armed \"expire\" has been left"]
    );
}

#[test]
fn execution_timeout_fails_in_current_state() {
    let machine = order();
    let state = start(&machine, ORDER);
    let turn = run(&machine, state, &[timer(1, "millstream.timeout", 0), event(2, "pay", "{}")]);
    assert_eq!(outcome_lines(&turn), ["1 → received", "2 ✗ execution ended"]);
    assert_eq!(
        (turn.state.phase, turn.state.reason.as_deref()),
        (ExecutionPhase::Failed, Some("timed out after 30d"))
    );
    assert_eq!(turn.state.state.as_str(), "received");
}

#[test]
fn cancellation_records_its_reason() {
    let machine = order();
    let cancel = event(1, "millstream.cancel", r#"{"reason":"wrong order"}"#);
    let turn = run(&machine, start(&machine, ORDER), &[cancel, event(2, "pay", "{}")]);
    assert_eq!(outcome_lines(&turn), ["1 → received", "2 ✗ execution ended"]);
    assert_eq!(
        (turn.state.phase, turn.state.reason.as_deref()),
        (ExecutionPhase::Cancelled, Some("wrong order"))
    );
    let silent = run(&machine, start(&machine, ORDER), &[event(1, "millstream.cancel", "null")]);
    assert_eq!((silent.state.phase, silent.state.reason), (ExecutionPhase::Cancelled, None));
}

#[test]
fn paused_execution_decides_cancellation_only() {
    let machine = order();
    let paid = event(1, "pay", r#"{"amount":100}"#);
    let idle = decide_mailbox(
        &machine,
        start(&machine, ORDER),
        std::slice::from_ref(&paid),
        PauseState::Paused,
        at(1),
    );
    assert_eq!((idle.outcomes.len(), idle.state.seq), (0, Seq(1)));
    let mailbox = [
        deferred(event(0, "ship", "null")),
        paid,
        event(2, "millstream.cancel", "null"),
        event(3, "ship", "null"),
    ];
    let cancelled = decide_mailbox(&machine, start(&machine, ORDER), &mailbox, PauseState::Paused, at(1));
    assert_eq!(
        outcome_lines(&cancelled),
        ["2 → received", "0 ✗ execution ended", "1 ✗ execution ended", "3 ✗ execution ended"]
    );
}

#[test]
fn ended_execution_rejects_while_paused() {
    let machine = order();
    let ended = run(&machine, start(&machine, ORDER), &[event(1, "expire", "null")]).state;
    assert_eq!(ended.phase, ExecutionPhase::Failed);
    let late = decide_mailbox(
        &machine,
        ended,
        &[event(2, "pay", "{}"), event(3, "millstream.cancel", "null")],
        PauseState::Paused,
        at(2),
    );
    assert_eq!(outcome_lines(&late), ["2 ✗ execution ended", "3 ✗ execution ended"]);
}

const DEFERRING: &str = "
name: x
initial: a
states:
  a: { on: { go: { to: b }, skip: { to: d } }, defer: [one, two, end] }
  b: { on: { one: { to: c }, note: {} }, defer: [two] }
  c: { on: { two: { to: a } } }
  d: { on: { end: { to: e }, go: { to: a } } }
  e: { final: true }
";

#[test]
fn deferred_events_precede_later_events() {
    let machine = machine(DEFERRING);
    let mailbox = [
        event(1, "two", "null"),
        event(2, "one", "null"),
        event(3, "one", "null"),
        event(4, "go", "null"),
        event(5, "note", "null"),
    ];
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    // Event 2 leads from b to c, where 1 is offered before 3 and leads back to a, which defers 3.
    assert_eq!(
        outcome_lines(&turn),
        ["4 → b", "2 → c", "1 → a", "5 ✗ state \"a\" does not handle \"note\"", "3 …"]
    );
}

#[test]
fn still_deferred_event_has_no_outcome() {
    let machine = machine(DEFERRING);
    let mailbox = [deferred(event(1, "two", "null")), event(2, "one", "null")];
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    assert_eq!(outcome_lines(&turn), ["2 …"]);
}

#[test]
fn deferred_event_survives_unrelated_states() {
    let machine = machine(DEFERRING);
    let mailbox = [
        deferred(event(1, "two", "null")),
        event(2, "skip", "null"),
        event(3, "go", "null"),
        event(4, "go", "null"),
        event(5, "one", "null"),
    ];
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    // State d does not mention `two`; state c, four transitions later, handles it.
    assert_eq!(outcome_lines(&turn), ["2 → d", "3 → a", "4 → b", "5 → c", "1 → a"]);
}

#[test]
fn final_state_rejects_deferred_events() {
    let machine = machine(
        "
name: x
initial: a
states:
  a: { on: { end: { to: z }, other: { to: b } }, defer: [later] }
  b: { on: { later: { to: z } } }
  z: { final: true }
",
    );
    let mailbox = [
        event(1, "later", "null"),
        event(2, "later", "null"),
        event(3, "end", "null"),
        event(4, "later", "null"),
    ];
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    assert_eq!(
        outcome_lines(&turn),
        ["3 → z", "1 ✗ execution ended", "2 ✗ execution ended", "4 ✗ execution ended"]
    );
    assert_eq!(turn.state.phase, ExecutionPhase::Completed);
}

#[test]
fn deferred_events_are_limited() {
    let machine = machine(DEFERRING);
    let mut mailbox: Vec<_> = (0..999).map(|n| deferred(event(n, "two", "null"))).collect();
    mailbox.push(event(1_000, "two", "null"));
    mailbox.push(event(1_001, "two", "null"));
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    assert_eq!(outcome_lines(&turn), ["1001 ✗ the limit of 1000 deferred events is reached", "1000 …"]);
}

#[test]
fn cancellation_needs_no_definition() {
    let machine = order();
    let open = start(&machine, ORDER);
    let paid = event(1, "pay", r#"{"amount":100}"#);
    let idle = decide_without_definition(open.clone(), std::slice::from_ref(&paid), at(1));
    assert_eq!((idle.outcomes.len(), &idle.state), (0, &open));
    let mailbox = [deferred(event(0, "ship", "null")), paid, event(2, "millstream.cancel", "null")];
    let closed = decide_without_definition(open, &mailbox, at(1));
    assert_eq!(outcome_lines(&closed), ["2 → received", "0 ✗ execution ended", "1 ✗ execution ended"]);
    assert_eq!((closed.state.phase, closed.state.seq), (ExecutionPhase::Cancelled, Seq(2)));
    let late =
        decide_without_definition(closed.state.clone(), &[event(3, "millstream.cancel", "null")], at(2));
    assert_eq!(outcome_lines(&late), ["3 ✗ execution ended"]);
    assert_eq!(late.state, closed.state);
}
