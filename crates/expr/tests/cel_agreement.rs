//! Differential test of our expressions against the `cel` crate, where both implement the same rules.
//!
//! The known differences (mixed numbers, `has` beneath null, key order) are in
//! `docs/decisions/expressions.md` and are not tested here.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use std::collections::BTreeMap;

use cel::Value as Theirs;
use millstream_expr::{CelProgram, CelValue as Ours, EventScope, ExprBudget, ExprScope, ExprVocabulary};
use millstream_model::context::ExecutionContext;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use proptest::prelude::*;

const CONTEXT: &str =
    r#"{"n":7,"m":-2,"d":2.5,"t":"grüße","l":[3,1,2],"o":{"a":1,"b":{"c":"x"}},"e":null,"y":true}"#;

fn ours(source: &str) -> Option<Ours> {
    let context: ExecutionContext = serde_json::from_str(CONTEXT).unwrap();
    let payload = RawJson::null();
    let time = Timestamp::from_millis(0);
    let event = EventScope { name: "e", payload: &payload, time };
    let scope = ExprScope {
        context: &context,
        event,
        now: time,
        results: &BTreeMap::new(),
        response: None,
        budget: &ExprBudget::default(),
    };
    CelProgram::compile(source, ExprVocabulary::Decision).ok()?.evaluate(&scope).ok()
}

fn theirs(source: &str) -> Option<Theirs> {
    let env = std::sync::Arc::new(cel::Env::stdlib());
    let program = env.compile(source).ok()?;
    let mut context = cel::Context::with_env(env);
    let value: serde_json::Value = serde_json::from_str(CONTEXT).unwrap();
    context.add_variable_from_value("context", convert(&value));
    program.execute(&context).ok()
}

/// Integers as `int`: the crate's own conversion makes them unsigned.
fn convert(value: &serde_json::Value) -> Theirs {
    match value {
        serde_json::Value::Null => Theirs::Null,
        serde_json::Value::Bool(truth) => Theirs::Bool(*truth),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Theirs::Float(number.as_f64().unwrap()), Theirs::Int)
        }
        serde_json::Value::String(text) => Theirs::from(text.as_str()),
        serde_json::Value::Array(items) => Theirs::from(items.iter().map(convert).collect::<Vec<_>>()),
        serde_json::Value::Object(map) => {
            let map: std::collections::HashMap<String, Theirs> =
                map.iter().map(|(key, value)| (key.clone(), convert(value))).collect();
            Theirs::from(map)
        }
    }
}

/// A canonical text per value, to compare the two implementations.
fn shown_ours(value: &Ours) -> String {
    match value {
        Ours::Null => "null".to_owned(),
        Ours::Bool(truth) => truth.to_string(),
        Ours::Int(int) => format!("int {int}"),
        Ours::Double(double) => format!("double {double}"),
        Ours::Text(text) => format!("{text:?}"),
        Ours::List(items) => format!("{:?}", items.iter().map(shown_ours).collect::<Vec<_>>()),
        Ours::Map(map) => {
            format!("{:?}", map.iter().map(|(k, v)| (k.clone(), shown_ours(v))).collect::<BTreeMap<_, _>>())
        }
        Ours::Time(time) => format!("time {}", time.to_rfc3339()),
        Ours::Span(length) => format!("span {length}"),
    }
}

fn shown_theirs(value: &Theirs) -> String {
    match value {
        Theirs::Null => "null".to_owned(),
        Theirs::Bool(truth) => truth.to_string(),
        Theirs::Int(int) => format!("int {int}"),
        Theirs::Float(double) => format!("double {double}"),
        Theirs::String(text) => format!("{text:?}"),
        Theirs::List(items) => format!("{:?}", items.iter().map(shown_theirs).collect::<Vec<_>>()),
        Theirs::Map(map) => {
            let entry = |(key, value): (&cel::objects::Key, &Theirs)| (key.to_string(), shown_theirs(value));
            format!("{:?}", map.map.iter().map(entry).collect::<BTreeMap<_, _>>())
        }
        Theirs::Timestamp(time) => format!("time {}", time.to_rfc3339()),
        Theirs::Duration(length) => format!("span {length}"),
        Theirs::Function(..) | Theirs::UInt(_) | Theirs::Bytes(_) | Theirs::Opaque(_) | Theirs::Struct(_) => {
            format!("{value:?}")
        }
    }
}

fn agree(source: &str) {
    let (ours, theirs) = (ours(source), theirs(source));
    let ours = ours.as_ref().map_or("an error".to_owned(), shown_ours);
    let theirs = theirs.as_ref().map_or("an error".to_owned(), shown_theirs);
    assert_eq!(ours, theirs, "{source}");
}

#[test]
fn listed_expressions_agree_with_cel_crate() {
    let sources = [
        "1 + 2 * 3 - 4",
        "(1 + 2) * 3",
        "7 / 2",
        "-7 / 2",
        "7 % 3",
        "-7 % 3",
        "- -3",
        "--3",
        "!!true",
        "1 - 2 - 3",
        "2 * 3 % 4",
        "1 + 1 == 2 && 2 < 3 || false",
        "1 < 2 == true",
        "true ? 1 : false ? 2 : 3",
        "9223372036854775807",
        "-9223372036854775808",
        "0x1F",
        "1.5e3",
        ".5",
        "1.0 / 4.0",
        "9223372036854775807 + 1",
        "1 / 0",
        "1 % 0",
        "context.n + context.m",
        "context.d * 2.0",
        "'a' + \"b\"",
        "'''a'b'''",
        "r'\\n'",
        "'\\n\\t\\x41\\u00e9\\U0001F980\\101'",
        "'grüße'.size()",
        "size(context.t)",
        "context.t.startsWith('gr')",
        "context.t.endsWith('e')",
        "context.t.contains('ß')",
        "context.l[0]",
        "context.l[3]",
        "context.l[-1]",
        "context.o.a",
        "context.o['a']",
        "context.o.b.c",
        "context.o.zz",
        "context.zz",
        "has(context.o.a)",
        "has(context.o.z)",
        "has(context.o.z.y)",
        "3 in context.l",
        "9 in context.l",
        "'a' in context.o",
        "1 in context.o",
        "true in context.o",
        "1.5 in context.o",
        "null in context.o",
        "[1] in context.o",
        "{'a': 1} in context.o",
        "[1, 2] + [3]",
        "[1, 2] == [1, 2]",
        "[1, [2]] == [1, [3]]",
        "{'a': 1} == {'a': 1}",
        "{'a': 1}.a",
        "{'a': 1, 'b': [2]}",
        "{}",
        "[]",
        "null",
        "null == null",
        "1 == 'a'",
        "'a' < 'b'",
        "true < 1",
        "context.l.all(x, x > 0)",
        "context.l.all(x, x > 1)",
        "context.l.exists(x, x == 2)",
        "context.l.exists_one(x, x > 1)",
        "context.l.map(x, x * 2)",
        "context.l.filter(x, x > 1)",
        "context.l.map(x, x > 1, x + 1)",
        "context.l.map(x, context.l.filter(y, y < x))",
        "[].all(x, x)",
        "context.o.exists(k, k == 'a')",
        "context.zz == 1 || true",
        "true || context.zz == 1",
        "context.zz == 1 && false",
        "false && 1 / 0 == 1",
        "1 / 0 == 1 || false",
        "int('42')",
        "int(2.9)",
        "int(-2.9)",
        "double('1.5')",
        "double(3)",
        "string(12)",
        "string(true)",
        "bool('true')",
        "int('x')",
        "1 +",
        "(1",
        "a b",
        "'open",
        "[1 2]",
        "1 ? 2",
        "if",
        "1..2",
        "context.y && !context.y",
        "context.e == null",
        "-context.n",
        "!context.n",
        "context.t[0]",
        "duration('90s') > duration('1m')",
        "duration('1h') + duration('30m') == duration('90m')",
        "timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-01T00:00:01Z')",
        "timestamp('2026-01-01T00:00:00Z').getFullYear()",
        "timestamp('2026-03-01T10:00:00Z').getMonth()",
    ];
    let values = sources.iter().filter(|source| ours(source).is_some()).count();
    assert!(values > 80, "agreeing on {} errors proves little", sources.len() - values);
    sources.into_iter().for_each(agree);
}

/// Random expressions over ints, strings, lists and truth; numbers never mix with doubles.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &[
            "1",
            "0",
            "-3",
            "7",
            "'a'",
            "''",
            "'grüße'",
            "true",
            "false",
            "null",
            "context.n",
            "context.m",
            "context.t",
            "context.l",
            "context.o",
            "context.o.b.c",
            "context.y",
            "context.zz",
            "[1, 2]",
            "[]",
            "{'a': 1}",
        ][..],
    )
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (
                two.clone(),
                prop::sample::select(
                    &["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"][..]
                )
            )
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("size({a})")),
            (two.clone(), inner.clone()).prop_map(|((a, b), c)| format!("({a} ? {b} : {c})")),
            (two, prop::sample::select(&["all", "exists", "filter", "map", "exists_one"][..]))
                .prop_map(|((a, b), name)| format!("({a}).{name}(x, ({b}) == x)")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions_agree_with_cel_crate(source in expression()) {
        agree(&source);
    }
}
