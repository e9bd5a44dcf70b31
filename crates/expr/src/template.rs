//! Compiled templates: values and texts with expressions in them.

use std::fmt::Write as _;

use millstream_model::context::MAX_CONTEXT_BYTES;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::secrets::{SealedText, SealedTextPart, SecretHoles};

use super::value::push_json_text;
use super::{
    CelProgram, CelValue, EvalError, ExprBudget, ExprScope, ExprVocabulary, PathRoot, PathStep, SecretPolicy,
    function,
};
use crate::{TextTemplate, TextTemplatePart, ValueTemplate};

/// A tree whose expressions are compiled; see [`ValueTemplate`].
#[derive(Debug)]
pub enum CompiledTemplate {
    /// Constant JSON.
    Fixed(String),
    Program(CelProgram),
    /// Renders as null; see [`CompiledTemplate::secret_holes`].
    Secret(Name),
    List(Vec<CompiledTemplate>),
    Map(Vec<(String, CompiledTemplate)>),
}

impl CompiledTemplate {
    /// Compiles every expression of the tree; problems carry their path, which starts with `path`.
    pub fn compile(
        template: &ValueTemplate,
        vocabulary: ExprVocabulary<'_>,
        path: &str,
        problems: &mut Vec<(String, String)>,
    ) -> Self {
        match template {
            ValueTemplate::Null => Self::Fixed("null".to_owned()),
            ValueTemplate::Bool(truth) => Self::Fixed(truth.to_string()),
            ValueTemplate::Int(int) => Self::Fixed(int.to_string()),
            ValueTemplate::Double(double) => Self::Fixed(serde_json::to_string(double).unwrap_or_default()),
            ValueTemplate::Cel(source) => match compile_leaf(source, vocabulary) {
                Ok(CompiledLeaf::Program(program)) => Self::Program(program),
                Ok(CompiledLeaf::Secret(name)) => Self::Secret(name),
                Err(messages) => {
                    problems.extend(messages.into_iter().map(|message| (path.to_owned(), message)));
                    Self::Fixed("null".to_owned())
                }
            },
            ValueTemplate::List(items) => Self::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(n, item)| Self::compile(item, vocabulary, &format!("{path}[{n}]"), problems))
                    .collect(),
            ),
            ValueTemplate::Map(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(key, item)| {
                        let compiled = Self::compile(item, vocabulary, &format!("{path}.{key}"), problems);
                        (key.clone(), compiled)
                    })
                    .collect(),
            ),
        }
    }

    /// Renders the tree as JSON. Errors start with their position below `name`: `body.user.name: …`.
    pub fn render(&self, scope: &ExprScope<'_>, name: &str) -> Result<RawJson, EvalError> {
        let at =
            |TemplateError { place, error }: TemplateError| EvalError::new(format!("{name}{place}: {error}"));
        if let Self::Program(program) = self {
            return program.evaluate_json(scope).map_err(|error| at(TemplateError::at_root(error)));
        }
        let raw = scope.budget.run_scoped(|| {
            let mut out = String::new();
            self.write_json(scope, &mut out).map_err(at)?;
            scope.budget.parse_json(out.len())?;
            scope.budget.build_text(out.len())?;
            RawJson::parse(&out).map_err(|error| EvalError::new(format!("{name}: the value is {error}")))
        })?;
        scope.budget.keep_bytes(raw.len())?;
        Ok(raw)
    }

    fn write_json(&self, scope: &ExprScope<'_>, out: &mut String) -> Result<(), TemplateError> {
        scope.budget.spend(1).map_err(TemplateError::at_root)?;
        match self {
            Self::Fixed(json) => {
                scope.budget.read_text(json.len()).map_err(TemplateError::at_root)?;
                out.push_str(json);
            }
            Self::Secret(_) => out.push_str("null"),
            Self::Program(program) => {
                out.push_str(program.evaluate_json(scope).map_err(TemplateError::at_root)?.as_str());
            }
            Self::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write_json(scope, out).map_err(|misfit| misfit.nested_in(&format!("[{n}]")))?;
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (n, (key, item)) in entries.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    push_json_text(out, key, MAX_CONTEXT_BYTES, scope.budget)
                        .map_err(TemplateError::at_root)?;
                    out.push(':');
                    item.write_json(scope, out).map_err(|misfit| misfit.nested_in(&format!(".{key}")))?;
                }
                out.push('}');
            }
        }
        if out.len() > MAX_CONTEXT_BYTES {
            let message = format!("the value is larger than {} KiB", MAX_CONTEXT_BYTES / 1024);
            return Err(TemplateError::at_root(EvalError::new(message)));
        }
        Ok(())
    }

    /// The positions of secrets in the rendered value.
    pub fn secret_holes(&self) -> SecretHoles {
        let mut holes = SecretHoles::new();
        self.collect_holes("", &mut holes);
        holes
    }

    fn collect_holes(&self, pointer: &str, holes: &mut SecretHoles) {
        match self {
            Self::Fixed(_) | Self::Program(_) => {}
            Self::Secret(name) => {
                holes.insert(pointer.to_owned(), name.clone());
            }
            Self::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    item.collect_holes(&format!("{pointer}/{n}"), holes);
                }
            }
            Self::Map(entries) => {
                for (key, item) in entries {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    item.collect_holes(&format!("{pointer}/{key}"), holes);
                }
            }
        }
    }

    /// Estimated memory size of its patterns.
    pub fn pattern_weight(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Secret(_) => 0,
            Self::Program(program) => program.pattern_weight(),
            Self::List(items) => items.iter().map(Self::pattern_weight).sum(),
            Self::Map(entries) => entries.iter().map(|(_, item)| item.pattern_weight()).sum(),
        }
    }

    /// Calls `visit` with every path that rendering may follow.
    pub fn visit_references<'s>(&'s self, visit: &mut dyn FnMut(PathRoot, &'s [PathStep])) {
        match self {
            Self::Fixed(_) | Self::Secret(_) => {}
            Self::Program(program) => program.references().for_each(|(root, path)| visit(root, path)),
            Self::List(items) => items.iter().for_each(|item| item.visit_references(visit)),
            Self::Map(entries) => entries.iter().for_each(|(_, item)| item.visit_references(visit)),
        }
    }
}

/// An error and its position in a tree.
struct TemplateError {
    place: String,
    error: EvalError,
}

impl TemplateError {
    fn at_root(error: EvalError) -> Self {
        Self { place: String::new(), error }
    }

    fn nested_in(self, step: &str) -> Self {
        Self { place: format!("{step}{}", self.place), ..self }
    }
}

/// A text whose expressions are compiled; see [`TextTemplate`].
#[derive(Debug)]
pub struct CompiledText(Vec<TextPiece>);

#[derive(Debug)]
enum TextPiece {
    Plain(String),
    Program(CelProgram),
    Secret(Name),
}

/// One expression of a definition: a program or a secret.
enum CompiledLeaf {
    Program(CelProgram),
    Secret(Name),
}

fn compile_leaf(source: &str, vocabulary: ExprVocabulary<'_>) -> Result<CompiledLeaf, Vec<String>> {
    if let ExprVocabulary::Action { needs: _, secrets: SecretPolicy::Allowed } = vocabulary
        && let Some(name) = CelProgram::secret_name(source)
    {
        let name = Name::parse(&name);
        return name
            .map(CompiledLeaf::Secret)
            .map_err(|error| vec![format!("the name of the secret {error}")]);
    }
    CelProgram::compile(source, vocabulary).map(CompiledLeaf::Program)
}

/// The destination of a text, which determines its escaping and its allowed characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTarget {
    /// A log line: any value is allowed, lists and maps as JSON.
    Line,
    /// A header value: no control characters.
    Header,
    /// A URL: values of expressions are percent-encoded, so that data cannot change its structure.
    Url,
}

impl CompiledText {
    /// Placeholder for a text that could not be compiled.
    pub fn empty() -> Self {
        Self(Vec::new())
    }

    pub fn compile(text: &TextTemplate, vocabulary: ExprVocabulary<'_>) -> Result<Self, Vec<String>> {
        let mut pieces = Vec::new();
        let mut problems = Vec::new();
        for part in text.split_parts().map_err(|message| vec![message])? {
            match part {
                TextTemplatePart::Plain(plain) => pieces.push(TextPiece::Plain(plain)),
                TextTemplatePart::Cel(source) => match compile_leaf(source, vocabulary) {
                    Ok(CompiledLeaf::Program(program)) => pieces.push(TextPiece::Program(program)),
                    Ok(CompiledLeaf::Secret(name)) => pieces.push(TextPiece::Secret(name)),
                    Err(messages) => problems.extend(messages),
                },
            }
        }
        if problems.is_empty() { Ok(Self(pieces)) } else { Err(problems) }
    }

    /// Estimated memory size of its patterns.
    pub fn pattern_weight(&self) -> usize {
        let weight = |piece: &TextPiece| match piece {
            TextPiece::Plain(_) | TextPiece::Secret(_) => 0,
            TextPiece::Program(program) => program.pattern_weight(),
        };
        self.0.iter().map(weight).sum()
    }

    /// Renders a text that cannot contain secrets.
    pub fn render(&self, scope: &ExprScope<'_>, target: TextTarget) -> Result<String, EvalError> {
        match self.render_sealed(scope, target)? {
            SealedText::Plain(text) => Ok(text),
            SealedText::Holed { .. } => Err(EvalError::new("a secret is not allowed here")),
        }
    }

    /// The text with its expressions evaluated. Its bytes stay held in the budget.
    pub fn render_sealed(&self, scope: &ExprScope<'_>, target: TextTarget) -> Result<SealedText, EvalError> {
        let (phrase, len) = scope.budget.run_scoped(|| self.assemble_parts(scope, target))?;
        scope.budget.keep_bytes(len)?;
        Ok(phrase)
    }

    fn assemble_parts(
        &self,
        scope: &ExprScope<'_>,
        target: TextTarget,
    ) -> Result<(SealedText, usize), EvalError> {
        let (mut parts, mut out, mut whole) = (Vec::new(), String::new(), String::new());
        for piece in &self.0 {
            let before = out.len();
            match piece {
                TextPiece::Plain(plain) => {
                    scope.budget.build_text(plain.len())?;
                    out.push_str(plain);
                }
                TextPiece::Program(program) => {
                    let value = program.evaluate(scope)?;
                    match target {
                        TextTarget::Line => push_shown(&mut out, &value, scope.budget)?,
                        TextTarget::Header => out.push_str(&plain_text(&value, scope.budget, 1)?),
                        TextTarget::Url => push_encoded(&mut out, &plain_text(&value, scope.budget, 3)?),
                    }
                }
                TextPiece::Secret(secret) => {
                    parts.push(SealedTextPart::Text(std::mem::take(&mut out)));
                    parts.push(SealedTextPart::Secret { secret: secret.clone() });
                    whole.push('x');
                    continue;
                }
            }
            whole.push_str(&out[before..]);
            if whole.len() > MAX_CONTEXT_BYTES {
                return Err(EvalError::new("the text is too long"));
            }
        }
        match target {
            TextTarget::Line => {}
            TextTarget::Header => {
                if whole.chars().any(char::is_control) {
                    return Err(EvalError::new("a header may not contain control characters"));
                }
            }
            TextTarget::Url => refuse_dot_segments(&whole)?,
        }
        if parts.is_empty() {
            return Ok((SealedText::Plain(out), whole.len()));
        }
        parts.push(SealedTextPart::Text(out));
        parts.retain(|part| *part != SealedTextPart::Text(String::new()));
        Ok((SealedText::Holed { parts }, whole.len()))
    }

    pub fn visit_references<'s>(&'s self, visit: &mut dyn FnMut(PathRoot, &'s [PathStep])) {
        for piece in &self.0 {
            match piece {
                TextPiece::Plain(_) | TextPiece::Secret(_) => {}
                TextPiece::Program(program) => {
                    program.references().for_each(|(root, path)| visit(root, path))
                }
            }
        }
    }
}

/// A scalar as text. Charges twice its length (two buffers) times `factor`, the growth by escaping.
fn plain_text(value: &CelValue, budget: &ExprBudget<'_>, factor: usize) -> Result<String, EvalError> {
    let len = match value {
        CelValue::Text(text) => text.len(),
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Double(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => function::SCALAR_TEXT,
    };
    if len > MAX_CONTEXT_BYTES {
        return Err(EvalError::new("the text is too long"));
    }
    budget.build_text(2 * factor * len)?;
    function::plain_text(value)
}

fn push_shown(out: &mut String, value: &CelValue, budget: &ExprBudget<'_>) -> Result<(), EvalError> {
    match value {
        CelValue::Null | CelValue::List(_) | CelValue::Map(_) => {
            let before = out.len();
            value.write_json(out, MAX_CONTEXT_BYTES, budget)?;
            budget.build_text(2 * (out.len() - before))
        }
        CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Double(_)
        | CelValue::Text(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => {
            out.push_str(&plain_text(value, budget, 1)?);
            Ok(())
        }
    }
}

/// Percent-encodes every character except the unreserved ones of RFC 3986.
pub(crate) fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string is infallible.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Refuses `.` and `..` segments: a value of `..` would leave the path of the definition, and encoding does
/// not help, because URL parsers treat `%2e` as a dot.
fn refuse_dot_segments(url: &str) -> Result<(), EvalError> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
    let climbs = after_scheme.split(['/', '\\']).any(|segment| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    });
    if climbs { Err(EvalError::new("the URL contains a \".\" or \"..\" segment")) } else { Ok(()) }
}
