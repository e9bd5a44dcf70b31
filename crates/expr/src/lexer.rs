//! The lexer: splits the source into tokens as the CEL specification defines them.

use super::string_literal;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CelToken {
    Ident(String),
    Int(i64),
    /// 2^63, which is an int only after a minus.
    IntBeyond,
    Double(f64),
    Text(String),
    /// Punctuation and operators, and the word `in`.
    Sign(&'static str),
    End,
}

impl CelToken {
    pub(super) fn describe_token(&self) -> String {
        match self {
            Self::Ident(name) => format!("{name:?}"),
            Self::Int(_) | Self::IntBeyond | Self::Double(_) => "a number".to_owned(),
            Self::Text(_) => "a string".to_owned(),
            Self::Sign(sign) => format!("{sign:?}"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// A token and its byte offset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PositionedToken {
    pub(super) token: CelToken,
    pub(super) at: usize,
}

/// A syntax error and its byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) message: String,
}

/// Longest first, so that `<=` is not lexed as `<`.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

pub(super) fn lex_tokens(source: &str) -> Result<Vec<PositionedToken>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let skipped = blank_length(rest);
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let (token, length) = lex_token(rest).map_err(|message| SyntaxError { at, message })?;
        tokens.push(PositionedToken { token, at });
        at += length;
    }
    tokens.push(PositionedToken { token: CelToken::End, at: source.len() });
    Ok(tokens)
}

/// Length of the leading whitespace or comment.
fn blank_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    text.len() - text.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len()
}

fn lex_token(text: &str) -> Result<(CelToken, usize), String> {
    if let Some(quoted) = string_literal::string_literal(text) {
        return quoted.map(|(text, length)| (CelToken::Text(text), length));
    }
    let first = text.chars().next().unwrap_or_default();
    let second = text.chars().nth(1).unwrap_or_default();
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return lex_number(text);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let word = &text[..end];
        let token = if word == "in" { CelToken::Sign("in") } else { CelToken::Ident(word.to_owned()) };
        return Ok((token, end));
    }
    match SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        Some(sign) => Ok((CelToken::Sign(sign), sign.len())),
        None => Err(format!("unexpected {first:?}")),
    }
}

fn lex_number(text: &str) -> Result<(CelToken, usize), String> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let length = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        refuse_suffix(&hex[length..])?;
        let value =
            i64::from_str_radix(&hex[..length], 16).map_err(|_| "not a number that fits".to_owned())?;
        return Ok((CelToken::Int(value), 2 + length));
    }
    let mut length = digits(text);
    let mut whole = true;
    if text[length..].starts_with('.') && digits(&text[length + 1..]) > 0 {
        length += 1 + digits(&text[length + 1..]);
        whole = false;
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[length + 1 + sign..]);
        if exponent == 0 {
            return Err("a number ends in the middle of its exponent".to_owned());
        }
        length += 1 + sign + exponent;
        whole = false;
    }
    refuse_suffix(&text[length..])?;
    let written = &text[..length];
    let token = if whole {
        match written.parse::<u64>() {
            Ok(value) if value == i64::MIN.unsigned_abs() => CelToken::IntBeyond,
            Ok(value) => CelToken::Int(i64::try_from(value).map_err(|_| too_large())?),
            Err(_) => return Err(too_large()),
        }
    } else {
        let value: f64 = written.parse().map_err(|_| "not a number".to_owned())?;
        if !value.is_finite() {
            return Err(too_large());
        }
        CelToken::Double(value)
    };
    Ok((token, length))
}

fn too_large() -> String {
    "a number is too large".to_owned()
}

fn refuse_suffix(rest: &str) -> Result<(), String> {
    match rest.chars().next() {
        Some('u' | 'U') => Err("unsigned numbers are not supported: leave out the u".to_owned()),
        Some(c) if c.is_alphanumeric() || c == '_' => Err(format!("unexpected {c:?} in a number")),
        Some(_) | None => Ok(()),
    }
}
