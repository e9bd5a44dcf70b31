//! Tests of the actions that a transition plans.

use std::collections::BTreeMap;

use super::cases::*;
use crate::expr::StopRule;
use crate::log::Plan;
use crate::machine::{ActionInput, render, step};
use crate::raw::RawJson;
use crate::sealed::Phrase;
use crate::status::Phase;

#[test]
fn actions_are_planned_with_the_context_after_the_transition() {
    let machine = order();
    let paid = applied(step(&machine, &start(&machine, ORDER), &event(1, "pay", r#"{"amount":100}"#), at(1)));
    let [charge, receipt] = &paid.actions[..] else { panic!("{:?}", paid.actions) };
    let Plan::Ready { input } = &charge.plan else { panic!("{charge:?}") };
    assert_eq!(
        input.as_str(),
        r#"{"http":{"method":"POST","url":"http://127.0.0.1:9000/charge/o-1","body":{"amount":100}}}"#
    );
    assert_eq!((receipt.ordinal, &receipt.needs[..]), (1, &[name("charge")][..]));
    let Plan::Waiting { scope } = &receipt.plan else { panic!("{receipt:?}") };
    assert!(scope.as_str().starts_with(r#"{"context":{"order_id":"o-1"},"event":{"#), "{scope}");
    assert!(!scope.as_str().contains("amount"), "only what is mentioned is kept: {scope}");
    let rendered =
        render(&machine, &name("receipt"), scope, &BTreeMap::new(), at(1), StopRule::NEVER).unwrap();
    assert_eq!(rendered.as_str(), r#"{"log":"order o-1 paid"}"#);
}

#[test]
fn a_line_in_the_log_is_settled_at_once_unless_somebody_waits_for_it() {
    let machine = machine(
        "
name: x
initial: a
states: { a: { on: { go: { to: b, do: [plain, told, broken, after_broken] } } }, b: { on: { said: { to: c } } }, c: { final: true } }
actions:
  plain: { log: 'hello' }
  told: { log: 'hello', on_success: said }
  broken: { http: { url: 'http://h/${context.missing}' } }
  after_broken: { noop: results.broken, needs: [broken] }
",
    );
    let go = applied(step(&machine, &start(&machine, "null"), &event(1, "go", "null"), at(1)));
    assert_eq!(
        go.actions[0].plan,
        Plan::Inline { input: json(r#"{"log":"hello"}"#), result: RawJson::null() }
    );
    assert_eq!(go.actions[1].plan, Plan::Ready { input: json(r#"{"log":"hello"}"#) });
    let Plan::Broken { error, .. } = &go.actions[2].plan else { panic!("{:?}", go.actions[2]) };
    assert_eq!(error, "url: there is no context.missing");
    assert!(matches!(go.actions[3].plan, Plan::Waiting { .. }));
}

#[test]
fn an_action_that_waited_renders_from_what_was_and_what_came() {
    let machine = machine(
        r#"
name: x
initial: a
context: { big: { keep: { me: 1, not: 2 }, drop: 3 }, list: [{ a: 1 }, { a: 2 }], unused: 5 }
states: { a: { on: { go: { to: b, set: { big: context.big }, do: [first, second] } } }, b: { final: true } }
actions:
  first: { noop: null }
  second:
    needs: [first]
    http:
      method: PUT
      url: "https://h/${context.big.keep.me}/${event.name}?t=${now.getFullYear()}"
      headers: { X-Id: "${results.first.id}" }
      body: { item: "context.list[1].a", who: event.payload.who, at: event.time, has: has(event.payload.none) }
"#,
    );
    let go = applied(step(
        &machine,
        &start(&machine, "null"),
        &event(1, "go", r#"{"who":"ann","other":"secret"}"#),
        at(1),
    ));
    let Plan::Waiting { scope } = &go.actions[1].plan else { panic!("{go:?}") };
    for absent in ["secret", "unused", "drop", "not"] {
        assert!(!scope.as_str().contains(absent), "{absent} in {scope}");
    }
    let results = BTreeMap::from([(name("first"), json(r#"{"id":77}"#))]);
    let input: ActionInput =
        render(&machine, &name("second"), scope, &results, at(1), StopRule::NEVER).unwrap().decode().unwrap();
    let ActionInput::Http(request) = input else { panic!("{input:?}") };
    assert_eq!(request.url, Phrase::Plain("https://h/1/go?t=2023".to_owned()));
    assert_eq!(request.headers["x-id"], Phrase::Plain("77".to_owned()));
    assert_eq!(
        request.body.unwrap().as_str(),
        format!(r#"{{"at":"{}","has":false,"item":2,"who":"ann"}}"#, at(0))
    );
    let error = render(
        &machine,
        &name("second"),
        scope,
        &BTreeMap::from([(name("first"), json("{}"))]),
        at(1),
        StopRule::NEVER,
    )
    .unwrap_err();
    assert_eq!(error.to_string(), "header x-id: there is no results.first.id");
}

#[test]
fn a_final_state_ends_the_execution_and_its_actions_are_planned() {
    let machine = machine(
        "{name: x, initial: a, states: {a: {on: {go: {to: b, do: [bye]}}}, b: {final: failed}}, actions: {bye: {noop: {a: 1}}}}",
    );
    let go = applied(step(&machine, &start(&machine, "null"), &event(1, "go", "null"), at(1)));
    assert_eq!(go.transition.decision.phase, Phase::Failed);
    assert_eq!(go.actions[0].plan, Plan::Ready { input: json(r#"{"noop":{"a":1}}"#) });
    assert_eq!(go.transition.decision.actions, [name("bye")]);
}
