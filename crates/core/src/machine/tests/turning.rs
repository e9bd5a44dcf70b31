//! Tests of mailbox visits: order, deferral, pause, the end.

use super::cases::*;
use crate::id::Seq;
use crate::log::Outcome;
use crate::machine::{closing, step, turn};
use crate::status::{PauseState, Phase};

#[test]
fn events_of_other_states_are_rejected_or_deferred() {
    let machine = order();
    let state = start(&machine, ORDER);
    assert_eq!(
        reason(step(&machine, &state, &event(1, "ship", "null"), at(1))),
        "state \"received\" does not handle \"ship\""
    );
    let turn = run(&machine, state, &[event(1, "pay", r#"{"amount":100}"#)]);
    assert_eq!(step(&machine, &turn.state, &event(2, "ship", "null"), at(1)), Outcome::Deferred);
}

#[test]
fn a_timer_that_fired_just_before_the_state_was_left_does_nothing() {
    let machine = machine(
        "{name: x, initial: a, states: {a: {on: {pay: {to: b}, expire: {to: c}}, after: [{in: 5s, send: expire}]}, b: {on: {expire: {to: c}}}, c: {final: failed}}}",
    );
    let turn = run(&machine, start(&machine, "null"), &[event(1, "pay", "null"), timer(2, "expire", 1)]);
    assert_eq!(
        told(&turn),
        ["1 → b", "2 ✗ stale timer: the entry at seq 1 that armed \"expire\" has been left"]
    );
}

#[test]
fn the_execution_timeout_fails_the_execution_where_it_stands() {
    let machine = order();
    let state = start(&machine, ORDER);
    let turn = run(&machine, state, &[timer(1, "millstream.timeout", 0), event(2, "pay", "{}")]);
    assert_eq!(told(&turn), ["1 → received", "2 ✗ execution ended"]);
    assert_eq!(
        (turn.state.phase, turn.state.reason.as_deref()),
        (Phase::Failed, Some("timed out after 30d"))
    );
    assert_eq!(turn.state.state.as_str(), "received");
}

#[test]
fn a_cancellation_ends_the_execution_with_its_reason() {
    let machine = order();
    let cancel = event(1, "millstream.cancel", r#"{"reason":"wrong order"}"#);
    let turn = run(&machine, start(&machine, ORDER), &[cancel, event(2, "pay", "{}")]);
    assert_eq!(told(&turn), ["1 → received", "2 ✗ execution ended"]);
    assert_eq!((turn.state.phase, turn.state.reason.as_deref()), (Phase::Cancelled, Some("wrong order")));
    let silent = run(&machine, start(&machine, ORDER), &[event(1, "millstream.cancel", "null")]);
    assert_eq!((silent.state.phase, silent.state.reason), (Phase::Cancelled, None));
}

#[test]
fn a_paused_execution_decides_nothing_but_a_cancellation() {
    let machine = order();
    let paid = event(1, "pay", r#"{"amount":100}"#);
    let idle = turn(&machine, start(&machine, ORDER), std::slice::from_ref(&paid), PauseState::Paused, at(1));
    assert_eq!((idle.outcomes.len(), idle.state.seq), (0, Seq(1)));
    let mailbox = [
        deferred(event(0, "ship", "null")),
        paid,
        event(2, "millstream.cancel", "null"),
        event(3, "ship", "null"),
    ];
    let cancelled = turn(&machine, start(&machine, ORDER), &mailbox, PauseState::Paused, at(1));
    assert_eq!(
        told(&cancelled),
        ["2 → received", "0 ✗ execution ended", "1 ✗ execution ended", "3 ✗ execution ended"]
    );
}

#[test]
fn an_ended_execution_rejects_even_while_paused() {
    let machine = order();
    let ended = run(&machine, start(&machine, ORDER), &[event(1, "expire", "null")]).state;
    assert_eq!(ended.phase, Phase::Failed);
    let late = turn(
        &machine,
        ended,
        &[event(2, "pay", "{}"), event(3, "millstream.cancel", "null")],
        PauseState::Paused,
        at(2),
    );
    assert_eq!(told(&late), ["2 ✗ execution ended", "3 ✗ execution ended"]);
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
fn deferred_events_go_first_after_each_change_of_state_in_order() {
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
    assert_eq!(told(&turn), ["4 → b", "2 → c", "1 → a", "5 ✗ state \"a\" does not handle \"note\"", "3 …"]);
}

#[test]
fn what_was_deferred_earlier_and_stays_so_has_no_outcome() {
    let machine = machine(DEFERRING);
    let mailbox = [deferred(event(1, "two", "null")), event(2, "one", "null")];
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    assert_eq!(told(&turn), ["2 …"]);
}

#[test]
fn what_was_deferred_is_kept_through_states_that_do_not_mention_it() {
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
    assert_eq!(told(&turn), ["2 → d", "3 → a", "4 → b", "5 → c", "1 → a"]);
}

#[test]
fn at_a_final_state_what_was_kept_is_rejected() {
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
    assert_eq!(told(&turn), ["3 → z", "1 ✗ execution ended", "2 ✗ execution ended", "4 ✗ execution ended"]);
    assert_eq!(turn.state.phase, Phase::Completed);
}

#[test]
fn only_so_many_events_are_kept() {
    let machine = machine(DEFERRING);
    let mut mailbox: Vec<_> = (0..999).map(|n| deferred(event(n, "two", "null"))).collect();
    mailbox.push(event(1_000, "two", "null"));
    mailbox.push(event(1_001, "two", "null"));
    let turn = run(&machine, start(&machine, "null"), &mailbox);
    assert_eq!(told(&turn), ["1001 ✗ the limit of 1000 deferred events is reached", "1000 …"]);
}

#[test]
fn without_a_definition_an_execution_can_still_be_cancelled_and_nothing_else() {
    let machine = order();
    let open = start(&machine, ORDER);
    let paid = event(1, "pay", r#"{"amount":100}"#);
    let idle = closing(open.clone(), std::slice::from_ref(&paid), at(1));
    assert_eq!((idle.outcomes.len(), &idle.state), (0, &open));
    let mailbox = [deferred(event(0, "ship", "null")), paid, event(2, "millstream.cancel", "null")];
    let closed = closing(open, &mailbox, at(1));
    assert_eq!(told(&closed), ["2 → received", "0 ✗ execution ended", "1 ✗ execution ended"]);
    assert_eq!((closed.state.phase, closed.state.seq), (Phase::Cancelled, Seq(2)));
    let late = closing(closed.state.clone(), &[event(3, "millstream.cancel", "null")], at(2));
    assert_eq!(told(&late), ["3 ✗ execution ended"]);
    assert_eq!(late.state, closed.state);
}
