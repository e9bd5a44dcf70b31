//! Tests of definition parsing, validation and canonical form.

use std::time::Duration;

use millstream_model::document::{MAX_SOURCE_BYTES, SourceFormat};
use millstream_model::problem::ValidationProblems;

use super::parse;
use crate::definition::*;

fn yaml(source: &str) -> Result<Definition, ValidationProblems> {
    parse(source, SourceFormat::Yaml)
}

fn problems(source: &str) -> Vec<String> {
    match yaml(source) {
        Ok(_) => panic!("no problem was found in:\n{source}"),
        Err(ValidationProblems(problems)) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// A valid definition with one part replaced.
fn valid_source() -> &'static str {
    r#"
name: order
initial: open
context: { total: 1 }
states:
  open:
    on:
      pay: { to: paid, do: [charge, receipt] }
      expire: { to: gone }
    after: [{ in: 30m, send: expire }]
  paid:
    on: { charged: { to: done } }
    defer: [pay]
  done: { final: true }
  gone: { final: failed }
actions:
  charge: { http: { url: "https://example.com/x" }, on_success: charged }
  receipt: { log: "paid ${results.charge.status}", needs: [charge] }
"#
}

fn problems_with(from: &str, to: &str) -> Vec<String> {
    assert!(valid_source().contains(from), "{from}");
    problems(&valid_source().replace(from, to))
}

#[test]
fn valid_definition_is_read_completely() {
    let definition = yaml(valid_source()).unwrap();
    assert_eq!(definition.mode(), ResponseMode::Async);
    assert_eq!(definition.states().len(), 4);
    let charge = definition.actions().get("charge").unwrap();
    assert_eq!(
        (charge.policy.retry.attempts, charge.policy.timeouts.start_to_close),
        (5, Duration::from_secs(30))
    );
    let open = definition.states().get("open").unwrap();
    assert_eq!(open.after[0].delay, Duration::from_secs(1800));
}

#[test]
fn every_problem_is_found_at_once_with_its_path() {
    let found = problems(
        r#"
name: Order
initial: opn
mode: sink
colour: red
timeout: 5
states:
  open:
    on:
      pay:
        - to: shiped
          set: { paid: event.paylod.amount }
          do: [charge, charge, recept]
        - { to: done }
      millstream.go: { to: done }
    after: [{ in: 1x, send: expire }, { send: pay }]
    defer: [pay, never]
  shipped: { final: yes }
  done: { final: true, on: { pay: { to: open } } }
  lost: {}
  stuck: { onn: {} }
actions:
  charge: { http: { url: "ftp://x", method: post }, needs: [receipt] }
  receipt: { log: "${context.}", needs: [charge], on_failure: unknown }
  both: { log: a, noop: null }
  none: { retry: { attempts: 0 } }
"#,
    );
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn misspelled_names_get_suggestions() {
    assert_eq!(
        problems_with("to: done", "to: dnoe"),
        ["states.paid.on.charged.to: no state \"dnoe\" (did you mean \"done\"?)"]
    );
    assert_eq!(
        problems_with("on_success: charged", "on_success: chraged"),
        ["actions.charge.on_success: no state handles \"chraged\" (did you mean \"charged\"?)"]
    );
    assert_eq!(
        problems_with("defer:", "deffer:"),
        ["states.paid.deffer: unknown field (did you mean \"defer\"?)"]
    );
    assert_eq!(
        problems_with("url:", "uri:"),
        [
            "actions.charge.http.uri: unknown field (did you mean \"url\"?)",
            "actions.charge.http.url: is missing"
        ]
    );
}

#[test]
fn unreachable_state_is_reported() {
    assert_eq!(
        problems_with("  gone:", "  lost: { final: true }\n  gone:"),
        ["states.lost: cannot be reached from \"open\""]
    );
}

#[test]
fn dead_end_state_is_reported() {
    let found = problems_with("gone: { final: failed }", "gone: { final: false }");
    assert_eq!(found, ["states.gone: is a dead end: it handles no event and is not final"]);
}

#[test]
fn final_state_has_no_timers() {
    let found = problems_with("{ final: true }", "{ final: true, after: [{ in: 1s, send: pay }] }");
    assert_eq!(found, ["states.done.after: is not allowed in a final state"]);
}

#[test]
fn alternative_after_unguarded_is_reported() {
    let found = problems_with(
        "pay: { to: paid, do: [charge, receipt] }",
        "pay: [{ to: paid }, { if: 'true', to: gone }]",
    );
    assert_eq!(found, ["states.open.on.pay[1]: is never tried: the alternative before it has no `if`"]);
}

#[test]
fn action_needs_cycles_are_reported() {
    assert_eq!(
        problems_with("do: [charge, receipt]", "do: [receipt]"),
        ["states.open.on.pay.do[0]: \"receipt\" needs \"charge\", which is not in this list"]
    );
    let found = problems_with("on_success: charged", "on_success: charged, needs: [receipt]");
    assert_eq!(found, ["actions.charge.needs: dependency cycle: charge → receipt → charge"]);
    let found = problems_with("needs: [charge]", "needs: [receipt, charge]");
    assert!(
        found.contains(&"actions.receipt.needs: dependency cycle: receipt → receipt".to_owned()),
        "{found:?}"
    );
}

#[test]
fn state_cannot_handle_and_defer_event() {
    let found = problems_with("defer: [pay]", "defer: [charged]");
    assert_eq!(found, ["states.paid.defer: \"charged\" is handled by this state and cannot be deferred"]);
}

#[test]
fn expression_problems_have_paths() {
    assert_eq!(
        problems_with("results.charge", "results.other"),
        ["actions.receipt.log: results.other is not among the action's needs"]
    );
    assert_eq!(
        problems_with("{ to: done }", "{ to: done, if: event.foo == 1 }"),
        ["states.paid.on.charged.if: there is no event.foo: an event has name, payload and time"]
    );
    assert_eq!(
        problems_with("{ to: done }", "{ to: done, set: { a: { b: [1, 'x +'] } } }"),
        ["states.paid.on.charged.set.a.b[1]: expected a value, found the end (at column 4)"]
    );
    assert_eq!(
        problems_with("paid ${results", "paid ${{results"),
        ["actions.receipt.log: a \"${\" has no closing \"}\" (write \"$${\" for a plain \"${\")"]
    );
}

#[test]
fn undeclared_context_keys_are_allowed() {
    assert!(yaml(&valid_source().replace("results.charge.status", "context.from_input")).is_ok());
}

#[test]
fn http_action_problems_are_reported() {
    for (url, message) in [
        ("https://", "has no host"),
        ("https:///x", "has no host"),
        ("${context.url}", "must begin with http:// or https://"),
        ("example.com", "must begin with http:// or https://"),
        ("https://a b", "may not contain spaces"),
    ] {
        let found = problems_with("https://example.com/x", url);
        assert_eq!(found, [format!("actions.charge.http.url: {message}")]);
    }
    let found = problems_with(
        "url: \"https://example.com/x\"",
        "url: 'http://a', headers: { Host: x, 'a b': x, X: 1, x: 2 }",
    );
    assert_eq!(
        found,
        [
            "actions.charge.http.headers.Host: is set by the engine",
            "actions.charge.http.headers.a b: is not a header name",
            "actions.charge.http.headers.x: appears twice",
        ]
    );
}

#[test]
fn retry_policy_problems_are_reported() {
    let found = problems_with(
        "on_success: charged",
        "on_success: charged, retry: { attempts: 0, backoff: 1m, max: 1s }",
    );
    assert_eq!(
        found,
        [
            "actions.charge.retry.attempts: must be from 1 to 1000",
            "actions.charge.retry.max: is shorter than the backoff",
        ]
    );
    let longer = valid_source().replace("on_success: charged", "on_success: charged, retry: { backoff: 5m }");
    let definition = yaml(&longer).unwrap();
    assert_eq!(definition.actions().get("charge").unwrap().policy.retry.max, Duration::from_secs(300));
}

#[test]
fn yaml_boolean_words_are_names() {
    let definition =
        yaml("{name: y, initial: on, states: {on: {on: {off: {to: no}, yes: {to: on}}}, no: {final: true}}}")
            .unwrap();
    assert!(definition.states().contains_key("no") && definition.states()["on"].on.contains_key("off"));
}

#[test]
fn context_numbers_keep_their_kind() {
    let definition =
        yaml(&valid_source().replace("{ total: 1 }", "{ a: 1, b: 1.0, c: -3, d: '007', e: [0.1] }")).unwrap();
    let shown: Vec<_> = definition.context().iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(shown, ["a=1", "b=1.0", "c=-3", "d=\"007\"", "e=[0.1]"]);
    let found = problems_with("total: 1", "total: [1, 18446744073709551615]");
    assert_eq!(
        found,
        ["context.total[1]: 18446744073709551615 does not fit a 64-bit integer: write it as a string"]
    );
}

#[test]
fn json_and_yaml_definitions_are_equal() {
    let definition = yaml(valid_source()).unwrap();
    assert_eq!(parse(&definition.canonical_json(), SourceFormat::Json).unwrap(), definition);
    assert_eq!(yaml(&definition.canonical_json()).unwrap(), definition);
}

#[test]
fn checksum_ignores_source_layout() {
    let checksum = |source: &str| yaml(source).unwrap().checksum();
    let reordered =
        valid_source().replace("name: order\ninitial: open", "initial: open\nname: order   # the same");
    assert_eq!(checksum(valid_source()), checksum(&reordered));
    assert_eq!(checksum(valid_source()), checksum(&valid_source().replace("30m", "1800s")));
    assert_ne!(checksum(valid_source()), checksum(&valid_source().replace("30m", "31m")));
    assert_ne!(
        checksum(valid_source()),
        checksum(&valid_source().replace("do: [charge, receipt]", "do: [receipt, charge]"))
    );
    assert_eq!(checksum(valid_source()).len(), 64);
}

#[test]
fn canonical_form_contains_defaults() {
    let text = yaml(valid_source()).unwrap().canonical_json();
    for part in
        [r#""dialect":1"#, r#""mode":"async""#, r#""attempts":5"#, r#""timeout":"30s""#, r#""method":"POST""#]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn unknown_dialect_is_refused() {
    assert_eq!(
        problems_with("name: order", "dialect: 2\nname: order"),
        ["dialect: this version reads dialect 1 only"]
    );
}

#[test]
fn duplicate_keys_are_refused() {
    assert!(problems_with("  gone:", "  done: { final: true }\n  gone:")[0].contains("duplicate"), "yaml");
    let json =
        yaml(valid_source()).unwrap().canonical_json().replace("\"name\":", "\"name\":\"twice\",\"name\":");
    let Err(ValidationProblems(found)) = parse(&json, SourceFormat::Json) else { panic!("accepted") };
    assert_eq!(found[0].to_string(), "name: appears twice");
}

#[test]
fn definition_size_limits_are_enforced() {
    let states: String =
        (0..1_001).map(|n| format!("  s{n}: {{ on: {{ e: {{ to: s{} }} }} }}\n", (n + 1) % 1_001)).collect();
    let found = problems(&format!("name: x\ninitial: s0\nstates:\n{states}"));
    assert_eq!(found, ["states: has 1001 states, at most 1000 are allowed"]);
    let found = problems(&format!("name: x\n# {}\n", "x".repeat(300_000)));
    assert!(found[0].contains("bytes long, at most 262144"), "{found:?}");
    let many: String = (0..300).map(|n| format!("unknown_{n}: 1\n")).collect();
    let found = problems(&many);
    assert_eq!((found.len(), found[100].as_str()), (101, "and 203 more problems"));
}

#[test]
fn hostile_yaml_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    }
    let deep_flow = "[".repeat(100_000);
    let deep_block: String = (0..3_000)
        .map(|n| format!("{}a:\n", " ".repeat(n)))
        .take_while(|_| true)
        .collect::<String>()
        .chars()
        .take(200_000)
        .collect();
    let sources = [
        bomb.as_str(),
        deep_flow.as_str(),
        deep_block.as_str(),
        "",
        "---\n---\n",
        "a: &a [*a]",
        "a: *nothing",
        "<<: { name: x }",
        "name: !!binary aGVsbG8=",
        "name: !custom x",
        "? [complex, key]\n: 1",
        "1: 2",
        "{a: .nan}",
        "{a: .inf}",
        "{a: 1e999}",
        "\u{0}\u{1}\u{2}",
        "\u{feff}name: x",
        "name: \u{202e}x",
        "- just\n- a\n- list",
        "just text",
        "42",
        "\t\tname: x",
        "name: x\n name: y",
        "%YAML 9.9\n---\nname: x",
        "name: \"\\uD800\"",
    ];
    for source in sources {
        let shown: String = source.chars().take(40).collect();
        assert!(yaml(source).is_err(), "{shown:?}");
        assert!(parse(source, SourceFormat::Json).is_err(), "{shown:?}");
    }
}

#[test]
fn yaml_anchors_are_allowed() {
    let source = "
name: x
initial: a
states:
  a: { on: { next: &next { to: b }, skip: *next } }
  b: { final: true }
";
    assert_eq!(yaml(source).unwrap().states()["a"].on.len(), 2);
}

/// The store keeps the canonical text: every accepted definition must be readable from it.
#[test]
fn unreadable_canonical_form_is_refused() {
    let nested = |levels: usize| {
        let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        format!(
            r#"{{"name":"n","initial":"a","states":{{"a":{{"on":{{"go":{{"set":{{"k":{value}}}}}}}}}}}}}"#
        )
    };
    let deepest = parse(&nested(57), SourceFormat::Json).unwrap();
    assert_eq!(parse(&deepest.canonical_json(), SourceFormat::Json).unwrap(), deepest);
    // In canonical form a handler becomes a list with one element: one level deeper than the source.
    let deep = parse(&nested(58), SourceFormat::Json).unwrap_err().to_string();
    assert!(deep.contains("canonical form") && deep.contains("64 levels"), "{deep}");

    // The canonical form contains the retries and the timeout of every action, even if they are defaults.
    let actions: String = (0..1_000).map(|n| format!("  c{n}: {{ log: {} }}\n", "x".repeat(200))).collect();
    let source = format!(
        "name: n\ninitial: a\nstates: {{ a: {{ on: {{ go: {{ do: [c0] }} }} }} }}\nactions:\n{actions}"
    );
    assert!(source.len() < MAX_SOURCE_BYTES);
    let long = yaml(&source).unwrap_err().to_string();
    assert!(long.contains("canonical form") && long.contains("bytes"), "{long}");
}
