//! Generated hostile steps: random expressions over long texts and lists.

use millstream_core::expr::{Program, Vocabulary};
use serde_json::json;

use super::cases::{HostileCase, Scale};
use crate::error::Result;

/// Deterministic: the same seed gives the same cases.
pub fn generated(count: usize, seed: u64, scale: Scale) -> Result<Vec<HostileCase>> {
    let mut dice = Dice(seed.wrapping_mul(2).wrapping_add(1));
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
    (0..count).map(|n| case(&mut dice, n, &context, &payload)).collect()
}

fn case(dice: &mut Dice, n: usize, context: &str, payload: &str) -> Result<HostileCase> {
    let (alternatives, actions) = match dice.below(4) {
        0 => (json!([{ "if": condition(dice) }]), json!({})),
        1 => (json!([{ "set": { "k": value(dice), "j": [value(dice), { "x": value(dice) }] } }]), json!({})),
        2 => {
            let guard = condition(dice);
            let mut all = vec![json!({ "if": format!("({guard}) && false") }); 2 + dice.below(200)];
            all.push(json!({ "set": { "k": value(dice) } }));
            (serde_json::Value::Array(all), json!({}))
        }
        _ => {
            let actions = json!({ "a": { "noop": { "k": value(dice) } }, "b": { "noop": value(dice) } });
            (json!([{ "do": ["a", "b"] }]), actions)
        }
    };
    let name = format!("generated {n}: {}", clipped(&alternatives.to_string()));
    HostileCase::step(&name, &alternatives, &actions, context, payload)
}

fn clipped(text: &str) -> String {
    text.chars().take(160).collect()
}

/// An expression that compiles.
fn value(dice: &mut Dice) -> String {
    usable(dice, any)
}

fn condition(dice: &mut Dice) -> String {
    usable(dice, truth)
}

fn usable(dice: &mut Dice, make: fn(&mut Dice, usize) -> String) -> String {
    loop {
        let source = make(dice, 4);
        if Program::compile(&source, Vocabulary::Decision).is_ok() {
            return source;
        }
    }
}

fn any(dice: &mut Dice, depth: usize) -> String {
    match dice.below(4) {
        0 => text(dice, depth),
        1 => list(dice, depth),
        2 => format!("{{{}: {}}}", text(dice, depth / 2), less(dice, depth, any)),
        _ => format!("[{}, {}]", less(dice, depth, any), less(dice, depth, list)),
    }
}

fn text(dice: &mut Dice, depth: usize) -> String {
    match dice.below(if depth == 0 { 3 } else { 7 }) {
        0 => "context.s".to_owned(),
        1 => "event.payload.s".to_owned(),
        2 => "context.m.b".to_owned(),
        3 => format!("({} + {})", less(dice, depth, text), less(dice, depth, text)),
        4 => format!("string({})", less(dice, depth, text)),
        5 => format!("{}.upperAscii()", less(dice, depth, text)),
        _ => format!("({} ? {} : 'no')", less(dice, depth, truth), less(dice, depth, text)),
    }
}

fn list(dice: &mut Dice, depth: usize) -> String {
    match dice.below(if depth == 0 { 3 } else { 7 }) {
        0 => "context.l".to_owned(),
        1 => "event.payload.l".to_owned(),
        2 => "event.payload.o".to_owned(),
        3 => format!("({} + {})", less(dice, depth, list), less(dice, depth, list)),
        4 | 5 => format!("{}.map(x{depth}, {})", less(dice, depth, list), less(dice, depth, any)),
        _ => format!("{}.filter(x{depth}, {})", less(dice, depth, list), less(dice, depth, truth)),
    }
}

fn truth(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return format!("{} == {}", text(dice, 0), text(dice, 0));
    }
    match dice.below(9) {
        0 => format!("{} == {}", less(dice, depth, text), less(dice, depth, text)),
        1 => format!("{} <= {}", less(dice, depth, text), less(dice, depth, text)),
        2 => format!("{} == {}", less(dice, depth, list), less(dice, depth, list)),
        3 => format!("{}.contains({})", less(dice, depth, text), less(dice, depth, text)),
        4 => format!("{}.matches('(x+y?)*[a-f]{{3,20}}$')", less(dice, depth, text)),
        5 => format!("{}.all(x{depth}, {})", less(dice, depth, list), less(dice, depth, truth)),
        6 => format!("{}.exists(x{depth}, {})", less(dice, depth, list), less(dice, depth, truth)),
        7 => format!("(int({}) == 7 || {})", less(dice, depth, text), less(dice, depth, truth)),
        _ => format!("({} && {})", less(dice, depth, truth), less(dice, depth, truth)),
    }
}

fn less(dice: &mut Dice, depth: usize, make: fn(&mut Dice, usize) -> String) -> String {
    make(dice, depth.saturating_sub(1))
}

/// A small random generator, deterministic on every platform.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (sides.max(1) as u64)).unwrap_or(0)
    }
}
