//! Tests of the actions that a transition plans.

use std::collections::BTreeMap;

use millstream_expr::StopRule;
use millstream_model::raw::RawJson;
use millstream_model::secrets::SealedText;
use millstream_model::status::ExecutionPhase;

use super::cases::*;
use crate::log::ActionPlan;
use crate::machine::{ActionInput, render_deferred_input, step};

#[test]
fn actions_see_context_after_transition() {
    let machine = order();
    let paid = applied(step(&machine, &start(&machine, ORDER), &event(1, "pay", r#"{"amount":100}"#), at(1)));
    let [charge, receipt] = &paid.actions[..] else { panic!("{:?}", paid.actions) };
    let ActionPlan::Ready { input } = &charge.plan else { panic!("{charge:?}") };
    assert_eq!(
        input.as_str(),
        r#"{"http":{"method":"POST","url":"http://127.0.0.1:9000/charge/o-1","body":{"amount":100}}}"#
    );
    assert_eq!((receipt.ordinal, &receipt.needs[..]), (1, &[name("charge")][..]));
    let ActionPlan::Waiting { scope } = &receipt.plan else { panic!("{receipt:?}") };
    assert!(scope.as_str().starts_with(r#"{"context":{"order_id":"o-1"},"event":{"#), "{scope}");
    assert!(!scope.as_str().contains("amount"), "only what is mentioned is kept: {scope}");
    let rendered =
        render_deferred_input(&machine, &name("receipt"), scope, &BTreeMap::new(), at(1), StopRule::NEVER)
            .unwrap();
    assert_eq!(rendered.as_str(), r#"{"log":"order o-1 paid"}"#);
}

#[test]
fn log_action_without_on_success_is_inline() {
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
        ActionPlan::Inline { input: json(r#"{"log":"hello"}"#), result: RawJson::null() }
    );
    assert_eq!(go.actions[1].plan, ActionPlan::Ready { input: json(r#"{"log":"hello"}"#) });
    let ActionPlan::Broken { error, .. } = &go.actions[2].plan else { panic!("{:?}", go.actions[2]) };
    assert_eq!(error, "url: there is no context.missing");
    assert!(matches!(go.actions[3].plan, ActionPlan::Waiting { .. }));
}

#[test]
fn waiting_action_renders_from_captured_scope() {
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
    let ActionPlan::Waiting { scope } = &go.actions[1].plan else { panic!("{go:?}") };
    for absent in ["secret", "unused", "drop", "not"] {
        assert!(!scope.as_str().contains(absent), "{absent} in {scope}");
    }
    let results = BTreeMap::from([(name("first"), json(r#"{"id":77}"#))]);
    let input: ActionInput =
        render_deferred_input(&machine, &name("second"), scope, &results, at(1), StopRule::NEVER)
            .unwrap()
            .decode()
            .unwrap();
    let ActionInput::Http(request) = input else { panic!("{input:?}") };
    assert_eq!(request.url, SealedText::Plain("https://h/1/go?t=2023".to_owned()));
    assert_eq!(request.headers["x-id"], SealedText::Plain("77".to_owned()));
    assert_eq!(
        request.body.unwrap().as_str(),
        format!(r#"{{"at":"{}","has":false,"item":2,"who":"ann"}}"#, at(0))
    );
    let error = render_deferred_input(
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
fn final_transition_still_plans_actions() {
    let machine = machine(
        "{name: x, initial: a, states: {a: {on: {go: {to: b, do: [bye]}}}, b: {final: failed}}, actions: {bye: {noop: {a: 1}}}}",
    );
    let go = applied(step(&machine, &start(&machine, "null"), &event(1, "go", "null"), at(1)));
    assert_eq!(go.transition.decision.phase, ExecutionPhase::Failed);
    assert_eq!(go.actions[0].plan, ActionPlan::Ready { input: json(r#"{"noop":{"a":1}}"#) });
    assert_eq!(go.transition.decision.actions, [name("bye")]);
}
