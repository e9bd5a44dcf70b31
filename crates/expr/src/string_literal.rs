//! String literals: single, double and triple quotes, raw or with escapes.

/// Decodes the string literal at the start of `text`, with its length in bytes; `None` if `text` does not
/// start with one.
pub(super) fn string_literal(text: &str) -> Option<Result<(String, usize), String>> {
    let prefix = text.len() - text.trim_start_matches(['r', 'R', 'b', 'B']).len();
    let body = &text[prefix..];
    if prefix > 2 || !body.starts_with(['"', '\'']) {
        return None;
    }
    if text[..prefix].contains(['b', 'B']) {
        return Some(Err("bytes are not supported: leave out the b".to_owned()));
    }
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| body.starts_with(quotes))?;
    let escapes = if prefix == 0 { EscapeMode::Interpreted } else { EscapeMode::Raw };
    Some(
        read_until_quotes(&body[quotes.len()..], quotes, escapes)
            .map(|(text, length)| (text, prefix + quotes.len() + length + quotes.len())),
    )
}

#[derive(Clone, Copy)]
enum EscapeMode {
    Interpreted,
    Raw,
}

fn read_until_quotes(body: &str, quotes: &str, escapes: EscapeMode) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut rest = body;
    loop {
        if rest.starts_with(quotes) {
            return Ok((text, body.len() - rest.len()));
        }
        let mut chars = rest.chars();
        match (chars.next(), escapes) {
            (None, _) => return Err("a string has no closing quote".to_owned()),
            (Some('\n' | '\r'), _) if quotes.len() == 1 => {
                return Err("a string ends at the end of its line".to_owned());
            }
            (Some('\\'), EscapeMode::Interpreted) => {
                let (c, length) = decode_escape(chars.as_str())?;
                text.push(c);
                rest = &chars.as_str()[length..];
            }
            (Some('\\'), EscapeMode::Raw) => {
                text.push('\\');
                // A raw string keeps its backslashes; an escaped quote still does not end it.
                if let Some(next) = chars.next() {
                    text.push(next);
                }
                rest = chars.as_str();
            }
            (Some(c), _) => {
                text.push(c);
                rest = chars.as_str();
            }
        }
    }
}

/// Decodes the escape after a backslash.
fn decode_escape(text: &str) -> Result<(char, usize), String> {
    let wrong = || "an escape in a string is not one of CEL's".to_owned();
    let first = text.chars().next().ok_or_else(wrong)?;
    let simple = match first {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '?' | '"' | '\'' | '`' => first,
        'x' | 'X' => return decode_code_point(&text[1..], 2, 16).map(|(c, n)| (c, n + 1)),
        'u' => return decode_code_point(&text[1..], 4, 16).map(|(c, n)| (c, n + 1)),
        'U' => return decode_code_point(&text[1..], 8, 16).map(|(c, n)| (c, n + 1)),
        '0'..='3' => return decode_code_point(text, 3, 8),
        _ => return Err(wrong()),
    };
    Ok((simple, 1))
}

fn decode_code_point(text: &str, length: usize, radix: u32) -> Result<(char, usize), String> {
    text.get(..length)
        .filter(|digits| digits.chars().all(|c| c.is_digit(radix)))
        .and_then(|digits| u32::from_str_radix(digits, radix).ok())
        .and_then(char::from_u32)
        .map(|c| (c, length))
        .ok_or_else(|| "an escape in a string is not a character".to_owned())
}
