//! Generated hostile steps: random expressions over long texts and lists.

use millstream_expr::{CelProgram, ExprVocabulary};
use serde_json::json;

use super::cases::{CaseScale, HostileCase};
use crate::error::BenchResult;

/// Deterministic: the same seed gives the same cases.
pub fn generated_cases(count: usize, seed: u64, scale: CaseScale) -> BenchResult<Vec<HostileCase>> {
    let mut dice = CaseDice(seed.wrapping_mul(2).wrapping_add(1));
    let context = format!(
        r#"{{"s":"{}","l":{},"m":{{"a":[1,2,3],"b":"{}"}}}}"#,
        scale.text(60_000),
        scale.list(20_000),
        scale.text(20_000)
    );
    let names: Vec<String> =
        (0..20_000 / scale.0).map(|n| format!(r#"{{"n":"name {n}","q":{n}}}"#)).collect();
    let payload =
        format!(r#"{{"s":"{}","l":{},"o":[{}]}}"#, scale.text(300_000), scale.list(60_000), names.join(","));
    (0..count).map(|n| generated_case(&mut dice, n, &context, &payload)).collect()
}

fn generated_case(dice: &mut CaseDice, n: usize, context: &str, payload: &str) -> BenchResult<HostileCase> {
    let (alternatives, actions) = match dice.below(4) {
        0 => (json!([{ "if": condition_expression(dice) }]), json!({})),
        1 => (
            json!([{ "set": { "k": value_expression(dice), "j": [value_expression(dice), { "x": value_expression(dice) }] } }]),
            json!({}),
        ),
        2 => {
            let guard = condition_expression(dice);
            let mut all = vec![json!({ "if": format!("({guard}) && false") }); 2 + dice.below(200)];
            all.push(json!({ "set": { "k": value_expression(dice) } }));
            (serde_json::Value::Array(all), json!({}))
        }
        _ => {
            let actions = json!({ "a": { "noop": { "k": value_expression(dice) } }, "b": { "noop": value_expression(dice) } });
            (json!([{ "do": ["a", "b"] }]), actions)
        }
    };
    let name = format!("generated {n}: {}", clip_text(&alternatives.to_string()));
    HostileCase::event_step(&name, &alternatives, &actions, context, payload)
}

fn clip_text(text: &str) -> String {
    text.chars().take(160).collect()
}

/// An expression that compiles.
fn value_expression(dice: &mut CaseDice) -> String {
    compiled_expression(dice, any_expression)
}

fn condition_expression(dice: &mut CaseDice) -> String {
    compiled_expression(dice, bool_expression)
}

fn compiled_expression(dice: &mut CaseDice, make: fn(&mut CaseDice, usize) -> String) -> String {
    loop {
        let source = make(dice, 4);
        if CelProgram::compile(&source, ExprVocabulary::Decision).is_ok() {
            return source;
        }
    }
}

fn any_expression(dice: &mut CaseDice, depth: usize) -> String {
    match dice.below(4) {
        0 => text_expression(dice, depth),
        1 => list_expression(dice, depth),
        2 => format!(
            "{{{}: {}}}",
            text_expression(dice, depth / 2),
            smaller_expression(dice, depth, any_expression)
        ),
        _ => format!(
            "[{}, {}]",
            smaller_expression(dice, depth, any_expression),
            smaller_expression(dice, depth, list_expression)
        ),
    }
}

fn text_expression(dice: &mut CaseDice, depth: usize) -> String {
    match dice.below(if depth == 0 { 3 } else { 7 }) {
        0 => "context.s".to_owned(),
        1 => "event.payload.s".to_owned(),
        2 => "context.m.b".to_owned(),
        3 => format!(
            "({} + {})",
            smaller_expression(dice, depth, text_expression),
            smaller_expression(dice, depth, text_expression)
        ),
        4 => format!("string({})", smaller_expression(dice, depth, text_expression)),
        5 => format!("{}.upperAscii()", smaller_expression(dice, depth, text_expression)),
        _ => format!(
            "({} ? {} : 'no')",
            smaller_expression(dice, depth, bool_expression),
            smaller_expression(dice, depth, text_expression)
        ),
    }
}

fn list_expression(dice: &mut CaseDice, depth: usize) -> String {
    match dice.below(if depth == 0 { 3 } else { 7 }) {
        0 => "context.l".to_owned(),
        1 => "event.payload.l".to_owned(),
        2 => "event.payload.o".to_owned(),
        3 => format!(
            "({} + {})",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, list_expression)
        ),
        4 | 5 => format!(
            "{}.map(x{depth}, {})",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, any_expression)
        ),
        _ => format!(
            "{}.filter(x{depth}, {})",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, bool_expression)
        ),
    }
}

fn bool_expression(dice: &mut CaseDice, depth: usize) -> String {
    if depth == 0 {
        return format!("{} == {}", text_expression(dice, 0), text_expression(dice, 0));
    }
    match dice.below(9) {
        0 => format!(
            "{} == {}",
            smaller_expression(dice, depth, text_expression),
            smaller_expression(dice, depth, text_expression)
        ),
        1 => format!(
            "{} <= {}",
            smaller_expression(dice, depth, text_expression),
            smaller_expression(dice, depth, text_expression)
        ),
        2 => format!(
            "{} == {}",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, list_expression)
        ),
        3 => format!(
            "{}.contains({})",
            smaller_expression(dice, depth, text_expression),
            smaller_expression(dice, depth, text_expression)
        ),
        4 => format!("{}.matches('(x+y?)*[a-f]{{3,20}}$')", smaller_expression(dice, depth, text_expression)),
        5 => format!(
            "{}.all(x{depth}, {})",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, bool_expression)
        ),
        6 => format!(
            "{}.exists(x{depth}, {})",
            smaller_expression(dice, depth, list_expression),
            smaller_expression(dice, depth, bool_expression)
        ),
        7 => format!(
            "(int({}) == 7 || {})",
            smaller_expression(dice, depth, text_expression),
            smaller_expression(dice, depth, bool_expression)
        ),
        _ => format!(
            "({} && {})",
            smaller_expression(dice, depth, bool_expression),
            smaller_expression(dice, depth, bool_expression)
        ),
    }
}

fn smaller_expression(dice: &mut CaseDice, depth: usize, make: fn(&mut CaseDice, usize) -> String) -> String {
    make(dice, depth.saturating_sub(1))
}

/// A small random generator, deterministic on every platform.
struct CaseDice(u64);

impl CaseDice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (sides.max(1) as u64)).unwrap_or(0)
    }
}
