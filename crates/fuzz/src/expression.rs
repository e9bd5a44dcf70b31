//! Expressions: the first line is CEL, the rest a payload; evaluating is bounded, repeatable, and its
//! result is JSON.

use std::collections::BTreeMap;

use millstream_expr::{CelProgram, EventScope, ExprBudget, ExprScope, ExprVocabulary};
use millstream_model::context::ExecutionContext;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

pub(crate) const WORDS: &[&str] = &[
    "context",
    "context.n",
    "event",
    "event.payload",
    "event.name",
    "event.time",
    "now",
    ".x",
    "[0]",
    "['k']",
    "(",
    ")",
    "{",
    "}",
    "?",
    ":",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<=",
    " in ",
    "'a'",
    "\"b\"",
    "'''",
    "r'",
    "b'",
    "\\x41",
    "\\u00e9",
    "\\",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    ".5",
    "1u",
    "0x7f",
    "true",
    "null",
    "has(",
    "size(",
    "int(",
    "double(",
    "string(",
    "timestamp(",
    "duration(",
    "'1h'",
    "matches('(a+)+$')",
    ".map(x, x)",
    ".filter(x, x > 0)",
    ".all(x, ",
    ".exists(x, ",
    ".startsWith('",
    ".contains('",
    "[1,2,3]",
    "{'a': 1}",
    "//",
    "\n",
    "é",
    "\u{202e}",
];

pub(crate) fn check_expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (source, payload) = text.split_once('\n').unwrap_or((text, "null"));
    let payload = RawJson::parse(payload)
        .unwrap_or_else(|_| RawJson::from_trusted_text(r#"{"x":1,"list":[1,2.5,"a"]}"#));
    match CelProgram::compile(source, ExprVocabulary::Decision) {
        Ok(program) => evaluate_twice(&program, &payload),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
            }
        }
    }
}

fn evaluate_twice(program: &CelProgram, payload: &RawJson) {
    let context: ExecutionContext = [("n", "7"), ("text", "\"a\\u0000b\""), ("list", "[3,1,{\"k\":null}]")]
        .map(|(key, json)| (key.to_owned(), RawJson::from_trusted_text(json)))
        .into();
    let time = Timestamp::from_millis(1_700_000_000_000);
    let event = EventScope { name: "pay", payload, time };
    let results = BTreeMap::new();
    let budgets: [ExprBudget<'_>; 4] = Default::default();
    let [first, second, third, fourth] = budgets.each_ref().map(|budget| ExprScope {
        context: &context,
        event,
        now: time,
        results: &results,
        response: None,
        budget,
    });
    let value = program.evaluate(&first);
    assert_eq!(format!("{value:?}"), format!("{:?}", program.evaluate(&second)), "evaluated twice");
    match program.evaluate_json(&third) {
        Ok(json) => {
            let again = RawJson::parse(json.as_str());
            assert_eq!(again.as_ref(), Ok(&json), "what an expression gives is JSON of bounded depth");
            assert_eq!(Ok(json), program.evaluate_json(&fourth).map_err(|error| error.to_string()));
        }
        Err(error) => assert!(!error.to_string().is_empty(), "failed without a reason"),
    }
}
