//! Templates: values and texts with expressions, rendered when a transition is decided.
//!
//! A [`ValueTemplate`] is the value of `set`, `body` and `noop`: its strings are CEL, everything else is literal.
//! A [`TextTemplate`] is the value of `url`, `headers` and `log`: text with `${CEL}`. Both are source text here; the
//! machine compiles and evaluates them.

use std::collections::BTreeMap;

/// A tree whose strings are CEL.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueTemplate {
    Null,
    Bool(bool),
    Int(i64),
    /// Always finite.
    Double(f64),
    Cel(String),
    List(Vec<ValueTemplate>),
    Map(BTreeMap<String, ValueTemplate>),
}

/// Text with `${CEL}` in it; `$${` is an escaped `${`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTemplate(pub String);

/// A piece of a [`TextTemplate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextTemplatePart<'a> {
    Plain(String),
    Cel(&'a str),
}

impl TextTemplate {
    /// Splits the text; fails on an unclosed `${`.
    pub fn split_parts(&self) -> Result<Vec<TextTemplatePart<'_>>, String> {
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
                parts.push(TextTemplatePart::Plain(std::mem::take(&mut plain)));
            }
            parts.push(TextTemplatePart::Cel(inside[..end].trim()));
            rest = &inside[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TextTemplatePart::Plain(plain));
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
        let shown = |part: TextTemplatePart<'_>| match part {
            TextTemplatePart::Plain(text) => text,
            TextTemplatePart::Cel(source) => format!("<{source}>"),
        };
        TextTemplate(text.to_owned()).split_parts().unwrap().into_iter().map(shown).collect()
    }

    #[test]
    fn text_template_splits_expressions() {
        assert_eq!(parts("order ${ context.id } paid"), ["order ", "<context.id>", " paid"]);
        assert_eq!(parts("${a}${b}"), ["<a>", "<b>"]);
        assert_eq!(parts("costs 5$ or {x}"), ["costs 5$ or {x}"]);
    }

    #[test]
    fn braces_and_quotes_stay_inside_expression() {
        assert_eq!(parts("${ {'a}': 1}['a}'] }!"), ["<{'a}': 1}['a}']>", "!"]);
        assert_eq!(parts(r#"${"\"}"}"#), [r#"<"\"}">"#]);
    }

    #[test]
    fn doubled_dollar_escapes_expression() {
        assert_eq!(parts("a $${b} ${c}"), ["a ${b} ", "<c>"]);
    }

    #[test]
    fn unclosed_expression_is_refused() {
        assert!(TextTemplate("${context.a".to_owned()).split_parts().is_err());
        assert!(TextTemplate("${'}'".to_owned()).split_parts().is_err());
    }
}
