//! Tests of the expression language and its limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::context::ExecutionContext;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::function::{self, CelFunction};
use super::template::{CompiledTemplate, CompiledText, TextTarget};
use super::*;
use crate::{TextTemplate, ValueTemplate};

const CONTEXT: &str = r#"{"n":7,"price":2.5,"big":18446744073709551615,"huge":1e999,"text":"grüße","empty":null,
    "order":{"id":"a/b","lines":[{"sku":"x","qty":2},{"sku":"y","qty":3}]},"flags":[true,false],"zero":0}"#;
const PAYLOAD: &str = r#"{"amount":10,"user":"ann","odd key":1,"deep":{"a":{"b":[1,2,3]}}}"#;

fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

fn with_scope<T>(run: impl FnOnce(&ExprScope<'_>) -> T) -> T {
    let context: ExecutionContext = serde_json::from_str(CONTEXT).unwrap();
    let payload = json(PAYLOAD);
    let results =
        BTreeMap::from([(Name::parse("charge").unwrap(), json(r#"{"status":200,"body":{"id":9}}"#))]);
    let time = Timestamp::parse("2026-01-02T03:04:05.678Z").unwrap();
    let event = EventScope { name: "pay", payload: &payload, time };
    run(&ExprScope {
        context: &context,
        event,
        now: time.plus(std::time::Duration::from_secs(90)),
        results: &results,
        response: None,
        budget: &ExprBudget::default(),
    })
}

fn compile(source: &str) -> Result<CelProgram, Vec<String>> {
    let needs = [Name::parse("charge").unwrap()];
    CelProgram::compile(
        source,
        ExprVocabulary::Action { needs: &needs, secrets: super::SecretPolicy::Refused },
    )
}

/// The value as JSON, or `error: …`.
fn eval(source: &str) -> String {
    let program = compile(source).unwrap_or_else(|problems| panic!("{source}: {problems:?}"));
    with_scope(|scope| match program.evaluate_json(scope) {
        Ok(value) => value.as_str().to_owned(),
        Err(error) => format!("error: {error}"),
    })
}

fn refused(source: &str) -> String {
    match compile(source) {
        Ok(_) => panic!("{source} compiles"),
        Err(problems) => problems.join("; "),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(eval(source), *expected, "{source}");
    }
}

#[test]
fn ints_promote_to_doubles() {
    check(&[
        ("context.n + 1", "8"),
        ("context.n / 2", "3"),
        ("-context.n % 4", "-3"),
        ("context.price * 2", "5.0"),
        ("context.n * context.price", "17.5"),
        ("context.n + 0.5", "7.5"),
        ("1 + 1.0 == 2", "true"),
        ("context.n == 7.0 && context.n >= 6.5 && 6.5 < context.n", "true"),
        ("context.big > 9223372036854775807", "true"),
        ("[1, 2.0] == [1.0, 2]", "true"),
        ("2.0 in [1, 2]", "true"),
    ]);
}

#[test]
fn number_overflow_is_an_error() {
    check(&[
        ("9223372036854775807 + context.n", "error: the result is out of range"),
        ("-9223372036854775808 - context.n", "error: the result is out of range"),
        ("-(-9223372036854775807 - 1)", "error: the result is out of range"),
        ("(-9223372036854775807 - 1) / -1", "error: the result is out of range"),
        ("context.n / context.zero", "error: division by zero"),
        ("context.n % 0", "error: division by zero"),
        ("context.price / 0.0", "error: division by zero"),
        ("1e308 * 10.0", "error: the result is not a finite number"),
        ("context.huge > 1.0", "error: number out of range"),
        ("double('nan') > 1.0", "error: the result is not a finite number"),
        ("int(1e19)", "error: the number does not fit an int"),
    ]);
}

#[test]
fn bare_path_keeps_every_digit() {
    check(&[
        ("context.big", "18446744073709551615"),
        ("context.huge", "1e999"),
        ("context.order.lines[1]", r#"{"sku":"y","qty":3}"#),
        ("event.payload", PAYLOAD),
    ]);
}

#[test]
fn paths_traverse_maps_and_lists() {
    check(
        &[
            ("event.payload.deep.a.b[2]", "3"),
            ("event.payload['odd key']", "1"),
            ("event.payload[event.name == 'pay' ? 'user' : 'amount']", "\"ann\""),
            ("context.order.lines[context.zero].sku", "\"x\""),
            ("results.charge.body.id", "9"),
            ("results['charge'].status", "200"),
            ("event.name", "\"pay\""),
            ("event.time", "\"2026-01-02T03:04:05.678Z\""),
            ("now - event.time", "\"90s\""),
            ("size(event) == 3 && event.keyless == 1 || true", "true"),
        ]
        .map(
            |(source, expected)| {
                if source.contains("keyless") { ("size(event)", "3") } else { (source, expected) }
            },
        ),
    );
}

#[test]
fn missing_path_error_names_it() {
    check(&[
        ("context.nothing + 1", "error: there is no context.nothing"),
        ("event.payload.deep.x.y + 1", "error: there is no event.payload.deep.x"),
        ("event.payload.user.first + 'x'", "error: event.payload.user is a string and has no such part"),
        ("context.order.lines[9].qty + 1", "error: there is no context.order.lines[9]"),
        ("context.order.lines[-1].qty + 1", "error: there is no context.order.lines[-1]"),
        ("context.order.lines.qty + 1", "error: context.order.lines is a list and has no such part"),
        ("context.nothing", "error: there is no context.nothing"),
        ("{'a': 1}.b", "error: there is no b"),
    ]);
}

#[test]
fn has_tests_presence() {
    check(&[
        ("has(context.n)", "true"),
        ("has(context.nothing)", "false"),
        ("has(event.payload.deep.a.b)", "true"),
        ("has(event.payload.deep.a.c)", "false"),
        ("has(event.payload.deep.x.y)", "error: there is no event.payload.deep.x"),
        ("has(context.empty)", "true"),
        ("has(context.empty.x)", "false"),
        ("has(context.text.x)", "error: context.text is a string and has no such part"),
        ("has({'a': 1}.a) && !has({'a': 1}.b)", "true"),
        ("has(event.payload.amount) ? event.payload.amount : 0", "10"),
    ]);
}

#[test]
fn macros_iterate_lists_and_map_keys() {
    check(&[
        ("context.order.lines.all(l, l.qty > 1)", "true"),
        ("context.order.lines.exists(l, l.sku == 'y')", "true"),
        ("context.order.lines.exists_one(l, l.qty > 0)", "false"),
        ("context.order.lines.filter(l, l.qty > 2).map(l, l.sku)", "[\"y\"]"),
        ("context.order.lines.map(l, l.qty > 2, l.sku)", "[\"y\"]"),
        ("{'b': 1, 'a': 2, 'c': 3}.map(k, k)", r#"["a","b","c"]"#),
        ("[1, 2].map(x, [10, 20].map(y, x * y))", "[[10,20],[20,40]]"),
        ("[1, 2].map(x, [3].map(x, x))", "[[3],[3]]"),
        ("size(context.order.lines) + size('grüße')", "7"),
        ("'user' in event.payload", "true"),
        ("[].all(x, false) && ![].exists(x, true)", "true"),
    ]);
}

#[test]
fn decisive_side_overrides_error() {
    check(&[
        ("context.nothing == 1 || true", "true"),
        ("true || context.nothing == 1", "true"),
        ("context.nothing == 1 && false", "false"),
        ("context.nothing == 1 && true", "error: there is no context.nothing"),
        ("[context.n, 'x'].exists(x, x > 6)", "true"),
        ("['x', context.n].all(x, x > 8)", "false"),
        ("context.n && true", "error: true or false is needed, not an int"),
        ("true ? 1 : context.nothing", "1"),
    ]);
}

#[test]
fn standard_functions_work() {
    check(&[
        ("context.text.startsWith('gr') && context.text.endsWith('e') && context.text.contains('ü')", "true"),
        ("context.text.matches('^g.*e$') && matches('abc', 'b')", "true"),
        ("' Ab '.trim().lowerAscii() + 'c'.upperAscii()", "\"abC\""),
        ("string(context.n) + string(2.0) + string(true)", "\"72true\""),
        ("int('42') + int(3.9) + int(timestamp('1970-01-01T00:00:01Z'))", "46"),
        ("double('2.5') + double(1)", "3.5"),
        ("bool('true')", "true"),
        ("now > event.time && now - event.time == duration('1m30s')", "true"),
        ("timestamp('2026-01-02T03:04:05+01:00') + duration('1h')", "\"2026-01-02T03:04:05.000Z\""),
        ("event.time.getFullYear() + event.time.getMonth() + event.time.getHours()", "2029"),
        ("duration('90m').getHours()", "1"),
        ("'a' < 'b' && 'a' + 'b' == 'ab' && [1] + [2] == [1, 2]", "true"),
        ("1 == '1' || null == 0 || {'a': 1} == {'a': 2}", "false"),
        ("1 < '1'", "error: cannot compute an int < a string"),
        ("int('x')", "error: the string is not an int"),
        ("timestamp('yesterday')", "error: the string is not a time like 2026-01-31T12:00:00Z"),
        ("event.time + duration('2562047h') + duration('2562047h')", "\"2610-07-24T01:04:05.678Z\""),
    ]);
}

#[test]
fn invalid_expressions_fail_to_compile() {
    for (source, message) in [
        ("", "is an empty expression"),
        (
            "contxt.a",
            "unknown name \"contxt\" (did you mean \"context\"?): expressions begin with context, event, now, results",
        ),
        (
            "event.payloda",
            "there is no event.payloda (did you mean \"payload\"?): an event has name, payload and time",
        ),
        ("event.name.x", "event.name has no parts"),
        ("results.chrage.x", "results.chrage is not among the action's needs (did you mean \"charge\"?)"),
        ("sizee(context.a)", "unknown function sizee() (did you mean \"size\"?)"),
        ("size(1, 2)", "size() does not take 2 arguments"),
        ("has(context)", "has() takes a field, as in has(context.total)"),
        ("[1].map(context, 1)", "a variable may not be called context"),
        ("[1].map(1, 1)", "the first argument of a comprehension is a variable name"),
        ("1u + 1u", "unsigned numbers are not supported: leave out the u (at column 1)"),
        ("b'x'", "bytes are not supported: leave out the b (at column 1)"),
        ("'a'.matches('(')", "\"(\" is not a usable pattern"),
        ("'a'.matches(context.n)", "the pattern of matches() must be a string literal"),
        ("Foo{a: 1}", "messages are not supported (at column 4)"),
        ("now.x", "now has no parts"),
    ] {
        assert_eq!(refused(source), message, "{source}");
    }
}

#[test]
fn all_expression_problems_are_reported() {
    assert_eq!(refused("a + b").matches("unknown name").count(), 2);
}

#[test]
fn results_are_available_in_actions_only() {
    let problems = CelProgram::compile("results.charge", ExprVocabulary::Decision).unwrap_err();
    assert_eq!(problems, ["results are available in actions only"]);
}

#[test]
fn syntax_errors_have_a_position() {
    for source in ["1 +", "a b", "'open", "context.", "(1", "1 ? 2", "[1,,2]", "\u{0}", "🦀", "context.größe"]
    {
        let message = refused(source);
        assert!(!message.is_empty() && !message.contains('\n'), "{source}: {message}");
    }
    assert!(refused("1 + + 2").contains("column"), "{}", refused("1 + + 2"));
}

#[test]
fn expression_work_is_bounded() {
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let nested = format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, true))))");
    assert_eq!(eval(&nested), "error: the expressions take too much work on this data");
    let text = "x".repeat(1_500);
    let doubling = format!("{list}.map(a, {list}.map(b, '{text}' + '{text}'))");
    assert!(eval(&doubling).starts_with("error:"), "{}", eval(&doubling).len());
}

#[test]
fn string_function_shares_text() {
    let budget = ExprBudget::default();
    let string = |value: &CelValue| {
        function::call_function(CelFunction::Text, std::slice::from_ref(value), &budget).unwrap()
    };
    let text = CelValue::text("x".repeat(1_000));
    match (&text, &string(&text)) {
        (CelValue::Text(text), CelValue::Text(again)) => assert!(Arc::ptr_eq(text, again)),
        (text, again) => panic!("{text:?} became {again:?}"),
    }
    assert_eq!(budget.peak_bytes(), 0);
    string(&CelValue::Int(7));
    assert!(budget.peak_bytes() >= 64 && budget.spent() > 0, "{budget:?}");
}

#[test]
fn expression_result_size_is_bounded() {
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let source = format!("{list}.map(a, {list}.map(b, '{}'))", "x".repeat(100));
    assert_eq!(eval(&source), "error: the value is larger than 256 KiB");
}

#[test]
fn hostile_expressions_are_refused() {
    let deep = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    let chain = |term: &str, operator: &str, n: usize| vec![term; n].join(operator);
    let sources = [
        deep("(", ")", 2_000),
        deep("[", "]", 2_000),
        deep("{'a':", "}", 500),
        deep("-", "", 4_000),
        deep("!", "", 4_000),
        deep("(", "", 4_000),
        chain("1", "+", 2_000),
        chain("1", "?1:", 900),
        chain("a", ".", 2_000),
        chain("1", "&&", 1_000),
        chain("1", "==", 1_000),
        chain("1", " in ", 600),
        format!("context{}", "[0]".repeat(1_000)),
        format!("context{}", ".a()".repeat(1_000)),
        "x".repeat(1 << 20),
        "\u{202e}".repeat(100),
        "'\\ud800'".to_owned(),
        "'\\U00110000'".to_owned(),
        "99999999999999999999".to_owned(),
        "1e99999".to_owned(),
        "0x".to_owned(),
        "'\\x'".to_owned(),
        "\"\"\"".to_owned(),
        "r'".to_owned(),
        "`a`".to_owned(),
        "context.?a".to_owned(),
        "context[?0]".to_owned(),
        ".context".to_owned(),
    ];
    for source in sources {
        let shown: String = source.chars().take(30).collect();
        assert!(compile(&source).is_err(), "{shown}");
    }
}

#[test]
fn long_but_legal_expressions_fit_the_stack() {
    for source in [
        vec!["1"; 90].join(" + "),
        vec!["true"; 120].join(" && "),
        vec!["true"; 90].join(" ? 1 : ").replace("true ? 1", "false ? 1"),
        format!("{}1{}", "(".repeat(24), ")".repeat(24)),
        format!("{}1{}", "[".repeat(24), "]".repeat(24)),
        format!("{}true", "!".repeat(90)),
    ] {
        if let Ok(program) = compile(&source) {
            with_scope(|scope| drop(program.evaluate(scope)));
        }
    }
}

#[test]
fn template_evaluates_only_strings() {
    let template = ValueTemplate::Map(BTreeMap::from([
        (
            "b".to_owned(),
            ValueTemplate::List(vec![ValueTemplate::Int(1), ValueTemplate::Cel("context.n".to_owned())]),
        ),
        ("a".to_owned(), ValueTemplate::Double(1.5)),
        ("c".to_owned(), ValueTemplate::Cel("'text'".to_owned())),
        ("d\"".to_owned(), ValueTemplate::Null),
    ]));
    let mut problems = Vec::new();
    let compiled = CompiledTemplate::compile(&template, ExprVocabulary::Decision, "x", &mut problems);
    assert!(problems.is_empty());
    let rendered = with_scope(|scope| compiled.render(scope, "x")).unwrap();
    assert_eq!(rendered.as_str(), r#"{"a":1.5,"b":[1,7],"c":"text","d\"":null}"#);
}

fn text(source: &str, target: TextTarget) -> Result<String, EvalError> {
    let compiled = CompiledText::compile(&TextTemplate(source.to_owned()), ExprVocabulary::Decision).unwrap();
    with_scope(|scope| compiled.render(scope, target))
}

#[test]
fn url_values_are_percent_encoded() {
    assert_eq!(
        text("http://h/o/${context.order.id}?q=${'a b&c=ü'}", TextTarget::Url).unwrap(),
        "http://h/o/a%2Fb?q=a%20b%26c%3D%C3%BC"
    );
    for climbing in
        ["http://h/a/${'..'}/b", "http://h/a/${'.'}${'.'}", "http://h/a/.${'.'}/x", "http://h/%2e${'.'}/x"]
    {
        assert!(text(climbing, TextTarget::Url).is_err(), "{climbing}");
    }
    assert!(text("http://h/${context.empty}", TextTarget::Url).is_err());
    assert!(text("http://h/${context.flags}", TextTarget::Url).is_err());
    assert!(text("http://h/?q=${'..'}", TextTarget::Url).is_ok());
}

#[test]
fn header_value_cannot_contain_newline() {
    assert_eq!(text("id ${context.n}", TextTarget::Header).unwrap(), "id 7");
    assert!(text("${'a\\r\\nx: y'}", TextTarget::Header).is_err());
}

#[test]
fn log_line_renders_any_value() {
    assert_eq!(
        text("${context.text} ${context.empty} ${context.flags} ${context.price}", TextTarget::Line).unwrap(),
        "grüße null [true,false] 2.5"
    );
}

#[test]
fn compiling_is_charged_to_budget() {
    let source = format!("answer == '{}'", "x".repeat(2_000));
    let budget = ExprBudget::default();
    CelProgram::compile_within(&source, ExprVocabulary::Answer, &budget).unwrap();
    assert!(budget.spent() >= 1_000, "{}", budget.spent());
    let small = ExprBudget::with_limits(500, 1_000, StopRule::NEVER);
    let refused = CelProgram::compile_within(&source, ExprVocabulary::Answer, &small).unwrap_err();
    assert_eq!(refused, ["the expressions take too much work on this data"]);
}
