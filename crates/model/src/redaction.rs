//! Redaction: finds a secret in a text in any encoding: plain, JSON-escaped (in several layers) or
//! URL-encoded.
//!
//! A target that echoes a request may write `/` as `/`, `\/`, `\u002f` or `%2F`. Searching for each encoding
//! of the whole secret would miss mixed encodings; the search here accepts a different encoding for each
//! character.

/// Replaces every occurrence of `wanted` by `with`. An empty `wanted` has no occurrence.
pub(crate) fn replace_encoded(text: &str, wanted: &str, with: &str) -> String {
    let Some(first) = wanted.bytes().next() else { return text.to_owned() };
    let bytes = text.as_bytes();
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        let may_begin = bytes[at] == first || matches!(bytes[at], b'\\' | b'%');
        match may_begin.then(|| match_end(bytes, at, wanted.as_bytes())).flatten() {
            // Only whole characters match, so that both ends are character boundaries.
            Some(end) if text.is_char_boundary(at) && text.is_char_boundary(end) => {
                out.push_str(&text[kept..at]);
                out.push_str(with);
                (kept, at) = (end, end);
            }
            Some(_) | None => at += 1,
        }
    }
    out.push_str(&text[kept..]);
    out
}

/// The end of `wanted` if it begins at `start`: the longest match over all encodings.
fn match_end(text: &[u8], start: usize, wanted: &[u8]) -> Option<usize> {
    // Pairs (bytes of `wanted` matched, position in the text): few, since hardly any byte is ambiguous.
    let mut open = vec![(0, start)];
    let mut longest = None;
    while let Some((read, at)) = open.pop() {
        if read == wanted.len() {
            longest = longest.max(Some(at));
            continue;
        }
        let rest = &wanted[read..];
        let mut go_on = |length: usize, next: usize| {
            if !open.contains(&(read + length, next)) {
                open.push((read + length, next));
            }
        };
        if text.get(at) == rest.first() {
            go_on(1, at + 1);
        }
        if let Some((byte, next)) = decode_percent(text, at)
            && byte == rest[0]
        {
            go_on(1, next);
        }
        // Backslashes doubled by one or several layers of JSON.
        let slashes = count_backslashes(text, at);
        if slashes > 1 && rest[0] == b'\\' {
            go_on(1, at + 2);
            go_on(1, at + slashes);
        }
        if let Some((character, next)) = decode_escape(text, at) {
            let mut buffer = [0; 4];
            let written = character.encode_utf8(&mut buffer).as_bytes();
            if rest.starts_with(written) {
                go_on(written.len(), next);
            }
        }
    }
    longest
}

/// A percent-encoded byte such as `%2F`.
fn decode_percent(text: &[u8], at: usize) -> Option<(u8, usize)> {
    if *text.get(at)? != b'%' {
        return None;
    }
    let digits = std::str::from_utf8(text.get(at + 1..at + 3)?).ok()?;
    Some((u8::from_str_radix(digits, 16).ok()?, at + 3))
}

fn count_backslashes(text: &[u8], at: usize) -> usize {
    text.iter().skip(at).take_while(|byte| **byte == b'\\').count()
}

/// Decodes a JSON escape whose backslashes any number of JSON layers have doubled.
fn decode_escape(text: &[u8], at: usize) -> Option<(char, usize)> {
    let slashes = count_backslashes(text, at);
    if slashes == 0 {
        return None;
    }
    let mark = at + slashes;
    let simple = |character: char| Some((character, mark + 1));
    match text.get(mark) {
        Some(b'"') => simple('"'),
        Some(b'/') => simple('/'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'u') => decode_unicode(text, mark),
        _ => None,
    }
}

/// `u00e9`, or a surrogate pair of two such escapes.
fn decode_unicode(text: &[u8], mark: usize) -> Option<(char, usize)> {
    let unit = |mark: usize| {
        let digits = std::str::from_utf8(text.get(mark + 1..mark + 5)?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(mark)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, mark + 5));
    }
    let next = mark + 5 + count_backslashes(text, mark + 5);
    let second = (text.get(next) == Some(&b'u')).then(|| unit(next)).flatten()?;
    let pair = char::decode_utf16([first, second]).next()?.ok()?;
    Some((pair, next + 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_redacted_in_every_encoding() {
        let secret = "s\"e/c\\r\u{e9}\u{1f600}t";
        for written in [
            secret.to_owned(),
            serde_json::to_string(secret).unwrap().trim_matches('"').to_owned(),
            r"s\u0022e\/c\\r\u00E9\ud83d\uDE00t".to_owned(),
            r#"s\\\"e/c\\\\r\\u00e9\\ud83d\\ude00t"#.to_owned(),
            "s%22e%2Fc%5Cr%C3%A9%f0%9f%98%80t".to_owned(),
            "s%22e/c\\\\r%c3%A9\u{1f600}t".to_owned(),
        ] {
            let text = format!("a\\ {written}{written} %z {written}");
            assert_eq!(replace_encoded(&text, secret, "*"), "a\\ ** %z *", "{written}");
        }
    }

    #[test]
    fn text_without_secret_is_unchanged() {
        for text in [
            "",
            "s",
            "se",
            "%",
            "%2",
            "\\",
            "\\u",
            "\\u00",
            "\\ud83d",
            "\\ud83d\\u0041",
            "\u{e9}\u{1f600}",
            "s\\/e",
        ] {
            assert_eq!(replace_encoded(text, "secret", "*"), text);
            assert_eq!(replace_encoded(text, "", "*"), text);
        }
        assert_eq!(replace_encoded("aaaa", "aa", "*"), "**");
    }
}
