//! From source to syntax tree, with the library's parser kept on a short lead.
//!
//! The parser recurses as deep as the source nests and as long as an operator chain is, and a stack
//! that overflows cannot be caught. So the source is measured before it is parsed: its length, how deep
//! its brackets nest, and how many operators it has. Within these bounds the parser was driven on the
//! stack of a test thread with everything our fuzz tests could think of. It is known to panic on a few
//! malformed literals in some versions; that is the one place where a panic is caught, since a
//! definition that cannot be parsed must be a problem for its author and not for the process.

use cel::Env;
use cel::parser::{Expression, Parser};

/// The longest expression, in bytes.
pub(super) const MAX_SOURCE: usize = 4096;
/// How deep brackets of all kinds may nest.
const MAX_NESTING: usize = 24;
/// How many operators and selections one expression may have.
const MAX_OPERATORS: usize = 256;

/// The syntax tree, or why there is none. Macros are left as the calls they are written as.
pub(super) fn parse(source: &str) -> Result<Expression, String> {
    measure(source)?;
    let parsed =
        std::panic::catch_unwind(|| parser().parse(source)).map_err(|_| "cannot be parsed".to_owned())?;
    parsed.map_err(|errors| {
        errors.errors.first().map_or_else(
            || "cannot be parsed".to_owned(),
            |error| format!("{} (at column {})", tidy(&error.msg), error.pos.1.max(1)),
        )
    })
}

fn parser() -> Parser {
    Env::default().with_optional_support(false).parser().max_recursion_depth(96)
}

/// The first line of a message, with the quotes of ours.
fn tidy(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("Syntax error: ").unwrap_or(line);
    let mut short: String = line.chars().take(160).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

fn measure(source: &str) -> Result<(), String> {
    if source.trim().is_empty() {
        return Err("is an empty expression".to_owned());
    }
    if source.len() > MAX_SOURCE {
        return Err(format!("is {} bytes long, at most {MAX_SOURCE} are allowed", source.len()));
    }
    let (mut depth, mut operators) = (0usize, 0usize);
    // Outside and inside quotes alike: a string full of brackets is measured too, and is rare enough
    // that refusing it costs less than a second lexer that must agree with the library's.
    let mut previous = 0u8;
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'<' | b'>' | b'?' | b'.' => operators += 1,
            b'=' | b'&' | b'|' if previous != byte => operators += 1,
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!("nests deeper than {MAX_NESTING} brackets"));
        }
        previous = byte;
    }
    if operators > MAX_OPERATORS {
        return Err(format!("has {operators} operators, at most {MAX_OPERATORS} are allowed"));
    }
    Ok(())
}
