//! Templates: values and texts with expressions, rendered when a transition is decided.
//!
//! A [`Template`] is the value of `set`, `body` and `noop`: its strings are CEL, everything else is literal.
//! A [`Text`] is the value of `url`, `headers` and `log`: text with `${CEL}`. Both are source text here; the
//! machine compiles and evaluates them.

use std::collections::BTreeMap;

/// A tree whose strings are CEL.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    Null,
    Bool(bool),
    Int(i64),
    /// Always finite.
    Double(f64),
    Cel(String),
    List(Vec<Template>),
    Map(BTreeMap<String, Template>),
}

/// Text with `${CEL}` in it; `$${` is an escaped `${`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

/// A piece of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    Plain(String),
    Cel(&'a str),
}

impl Text {
    /// Splits the text; fails on an unclosed `${`.
    pub fn parts(&self) -> Result<Vec<Part<'_>>, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                plain.push_str(&rest[..at - 1]);
                plain.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            plain.push_str(&rest[..at]);
            let inside = &rest[at + 2..];
            let end = closing_brace(inside).ok_or_else(|| {
                "a \"${\" has no closing \"}\" (write \"$${\" for a plain \"${\")".to_owned()
            })?;
            if !plain.is_empty() {
                parts.push(Part::Plain(std::mem::take(&mut plain)));
            }
            parts.push(Part::Cel(inside[..end].trim()));
            rest = &inside[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Plain(plain));
        }
        Ok(parts)
    }
}

/// The end of the expression: the first `}` that is not inside a string and closes no inner `{`.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth == 0 => return Some(at),
            (None, b'}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        let shown = |part: Part<'_>| match part {
            Part::Plain(text) => text,
            Part::Cel(source) => format!("<{source}>"),
        };
        Text(text.to_owned()).parts().unwrap().into_iter().map(shown).collect()
    }

    #[test]
    fn expressions_are_cut_out_of_the_text() {
        assert_eq!(parts("order ${ context.id } paid"), ["order ", "<context.id>", " paid"]);
        assert_eq!(parts("${a}${b}"), ["<a>", "<b>"]);
        assert_eq!(parts("costs 5$ or {x}"), ["costs 5$ or {x}"]);
    }

    #[test]
    fn braces_and_quotes_inside_an_expression_do_not_end_it() {
        assert_eq!(parts("${ {'a}': 1}['a}'] }!"), ["<{'a}': 1}['a}']>", "!"]);
        assert_eq!(parts(r#"${"\"}"}"#), [r#"<"\"}">"#]);
    }

    #[test]
    fn a_doubled_dollar_is_a_plain_one() {
        assert_eq!(parts("a $${b} ${c}"), ["a ${b} ", "<c>"]);
    }

    #[test]
    fn an_open_expression_is_an_error() {
        assert!(Text("${context.a".to_owned()).parts().is_err());
        assert!(Text("${'}'".to_owned()).parts().is_err());
    }
}
