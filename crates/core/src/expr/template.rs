//! Compiled templates: values and texts with expressions in them.

use std::fmt::Write as _;

use crate::definition::{Part, Template, Text};
use crate::id::Name;
use crate::log::MAX_CONTEXT_BYTES;
use crate::raw::RawJson;
use crate::sealed::{Holes, Phrase, PhrasePart};

use super::value::push_json_text;
use super::{Budget, EvalError, Program, Root, Scope, Secrets, Step, Value, Vocabulary, function};

/// A tree whose expressions are compiled; see [`Template`].
#[derive(Debug)]
pub enum Compiled {
    /// Constant JSON.
    Fixed(String),
    Program(Program),
    /// Renders as null; see [`Compiled::holes`].
    Secret(Name),
    List(Vec<Compiled>),
    Map(Vec<(String, Compiled)>),
}

impl Compiled {
    /// Compiles every expression of the tree; problems carry their path, which starts with `path`.
    pub fn compile(
        template: &Template,
        vocabulary: Vocabulary<'_>,
        path: &str,
        problems: &mut Vec<(String, String)>,
    ) -> Self {
        match template {
            Template::Null => Self::Fixed("null".to_owned()),
            Template::Bool(truth) => Self::Fixed(truth.to_string()),
            Template::Int(int) => Self::Fixed(int.to_string()),
            Template::Double(double) => Self::Fixed(serde_json::to_string(double).unwrap_or_default()),
            Template::Cel(source) => match leaf(source, vocabulary) {
                Ok(Leaf::Program(program)) => Self::Program(program),
                Ok(Leaf::Secret(name)) => Self::Secret(name),
                Err(messages) => {
                    problems.extend(messages.into_iter().map(|message| (path.to_owned(), message)));
                    Self::Fixed("null".to_owned())
                }
            },
            Template::List(items) => Self::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(n, item)| Self::compile(item, vocabulary, &format!("{path}[{n}]"), problems))
                    .collect(),
            ),
            Template::Map(entries) => Self::Map(
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
    pub fn render(&self, scope: &Scope<'_>, name: &str) -> Result<RawJson, EvalError> {
        let at = |Misfit { place, error }: Misfit| EvalError::new(format!("{name}{place}: {error}"));
        if let Self::Program(program) = self {
            return program.evaluate_json(scope).map_err(|error| at(Misfit::here(error)));
        }
        let raw = scope.budget.scoped(|| {
            let mut out = String::new();
            self.write(scope, &mut out).map_err(at)?;
            scope.budget.parse_json(out.len())?;
            scope.budget.build_text(out.len())?;
            RawJson::parse(&out).map_err(|error| EvalError::new(format!("{name}: the value is {error}")))
        })?;
        scope.budget.keep(raw.len())?;
        Ok(raw)
    }

    fn write(&self, scope: &Scope<'_>, out: &mut String) -> Result<(), Misfit> {
        scope.budget.spend(1).map_err(Misfit::here)?;
        match self {
            Self::Fixed(json) => {
                scope.budget.read_text(json.len()).map_err(Misfit::here)?;
                out.push_str(json);
            }
            Self::Secret(_) => out.push_str("null"),
            Self::Program(program) => {
                out.push_str(program.evaluate_json(scope).map_err(Misfit::here)?.as_str());
            }
            Self::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(scope, out).map_err(|misfit| misfit.below(&format!("[{n}]")))?;
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (n, (key, item)) in entries.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    push_json_text(out, key, MAX_CONTEXT_BYTES, scope.budget).map_err(Misfit::here)?;
                    out.push(':');
                    item.write(scope, out).map_err(|misfit| misfit.below(&format!(".{key}")))?;
                }
                out.push('}');
            }
        }
        if out.len() > MAX_CONTEXT_BYTES {
            let message = format!("the value is larger than {} KiB", MAX_CONTEXT_BYTES / 1024);
            return Err(Misfit::here(EvalError::new(message)));
        }
        Ok(())
    }

    /// The positions of secrets in the rendered value.
    pub fn holes(&self) -> Holes {
        let mut holes = Holes::new();
        self.collect_holes("", &mut holes);
        holes
    }

    fn collect_holes(&self, pointer: &str, holes: &mut Holes) {
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
    pub(crate) fn pattern_weight(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Secret(_) => 0,
            Self::Program(program) => program.pattern_weight(),
            Self::List(items) => items.iter().map(Self::pattern_weight).sum(),
            Self::Map(entries) => entries.iter().map(|(_, item)| item.pattern_weight()).sum(),
        }
    }

    /// Calls `visit` with every path that rendering may follow.
    pub fn references<'s>(&'s self, visit: &mut dyn FnMut(Root, &'s [Step])) {
        match self {
            Self::Fixed(_) | Self::Secret(_) => {}
            Self::Program(program) => program.references().for_each(|(root, path)| visit(root, path)),
            Self::List(items) => items.iter().for_each(|item| item.references(visit)),
            Self::Map(entries) => entries.iter().for_each(|(_, item)| item.references(visit)),
        }
    }
}

/// An error and its position in a tree.
struct Misfit {
    place: String,
    error: EvalError,
}

impl Misfit {
    fn here(error: EvalError) -> Self {
        Self { place: String::new(), error }
    }

    fn below(self, step: &str) -> Self {
        Self { place: format!("{step}{}", self.place), ..self }
    }
}

/// A text whose expressions are compiled; see [`Text`].
#[derive(Debug)]
pub struct CompiledText(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Plain(String),
    Program(Program),
    Secret(Name),
}

/// One expression of a definition: a program or a secret.
enum Leaf {
    Program(Program),
    Secret(Name),
}

fn leaf(source: &str, vocabulary: Vocabulary<'_>) -> Result<Leaf, Vec<String>> {
    if let Vocabulary::Action { needs: _, secrets: Secrets::Allowed } = vocabulary
        && let Some(name) = Program::secret(source)
    {
        let name = Name::parse(&name);
        return name.map(Leaf::Secret).map_err(|error| vec![format!("the name of the secret {error}")]);
    }
    Program::compile(source, vocabulary).map(Leaf::Program)
}

/// The destination of a text, which determines its escaping and its allowed characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A log line: any value is allowed, lists and maps as JSON.
    Line,
    /// A header value: no control characters.
    Header,
    /// A URL: values of expressions are percent-encoded, so that data cannot change its structure.
    Url,
}

impl CompiledText {
    /// Placeholder for a text that could not be compiled.
    pub(crate) fn empty() -> Self {
        Self(Vec::new())
    }

    pub fn compile(text: &Text, vocabulary: Vocabulary<'_>) -> Result<Self, Vec<String>> {
        let mut pieces = Vec::new();
        let mut problems = Vec::new();
        for part in text.parts().map_err(|message| vec![message])? {
            match part {
                Part::Plain(plain) => pieces.push(Piece::Plain(plain)),
                Part::Cel(source) => match leaf(source, vocabulary) {
                    Ok(Leaf::Program(program)) => pieces.push(Piece::Program(program)),
                    Ok(Leaf::Secret(name)) => pieces.push(Piece::Secret(name)),
                    Err(messages) => problems.extend(messages),
                },
            }
        }
        if problems.is_empty() { Ok(Self(pieces)) } else { Err(problems) }
    }

    /// Estimated memory size of its patterns.
    pub(crate) fn pattern_weight(&self) -> usize {
        let weight = |piece: &Piece| match piece {
            Piece::Plain(_) | Piece::Secret(_) => 0,
            Piece::Program(program) => program.pattern_weight(),
        };
        self.0.iter().map(weight).sum()
    }

    /// Renders a text that cannot contain secrets.
    pub fn render(&self, scope: &Scope<'_>, target: Target) -> Result<String, EvalError> {
        match self.phrase(scope, target)? {
            Phrase::Plain(text) => Ok(text),
            Phrase::Holed { .. } => Err(EvalError::new("a secret is not allowed here")),
        }
    }

    /// The text with its expressions evaluated. Its bytes stay held in the budget.
    pub fn phrase(&self, scope: &Scope<'_>, target: Target) -> Result<Phrase, EvalError> {
        let (phrase, len) = scope.budget.scoped(|| self.assemble(scope, target))?;
        scope.budget.keep(len)?;
        Ok(phrase)
    }

    fn assemble(&self, scope: &Scope<'_>, target: Target) -> Result<(Phrase, usize), EvalError> {
        let (mut parts, mut out, mut whole) = (Vec::new(), String::new(), String::new());
        for piece in &self.0 {
            let before = out.len();
            match piece {
                Piece::Plain(plain) => {
                    scope.budget.build_text(plain.len())?;
                    out.push_str(plain);
                }
                Piece::Program(program) => {
                    let value = program.evaluate(scope)?;
                    match target {
                        Target::Line => push_shown(&mut out, &value, scope.budget)?,
                        Target::Header => out.push_str(&plain_text(&value, scope.budget, 1)?),
                        Target::Url => push_encoded(&mut out, &plain_text(&value, scope.budget, 3)?),
                    }
                }
                Piece::Secret(secret) => {
                    parts.push(PhrasePart::Text(std::mem::take(&mut out)));
                    parts.push(PhrasePart::Secret { secret: secret.clone() });
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
            Target::Line => {}
            Target::Header => {
                if whole.chars().any(char::is_control) {
                    return Err(EvalError::new("a header may not contain control characters"));
                }
            }
            Target::Url => refuse_dot_segments(&whole)?,
        }
        if parts.is_empty() {
            return Ok((Phrase::Plain(out), whole.len()));
        }
        parts.push(PhrasePart::Text(out));
        parts.retain(|part| *part != PhrasePart::Text(String::new()));
        Ok((Phrase::Holed { parts }, whole.len()))
    }

    pub fn references<'s>(&'s self, visit: &mut dyn FnMut(Root, &'s [Step])) {
        for piece in &self.0 {
            match piece {
                Piece::Plain(_) | Piece::Secret(_) => {}
                Piece::Program(program) => program.references().for_each(|(root, path)| visit(root, path)),
            }
        }
    }
}

/// A scalar as text. Charges twice its length (two buffers) times `factor`, the growth by escaping.
fn plain_text(value: &Value, budget: &Budget<'_>, factor: usize) -> Result<String, EvalError> {
    let len = match value {
        Value::Text(text) => text.len(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Double(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Time(_)
        | Value::Span(_) => function::SCALAR_TEXT,
    };
    if len > MAX_CONTEXT_BYTES {
        return Err(EvalError::new("the text is too long"));
    }
    budget.build_text(2 * factor * len)?;
    function::plain_text(value)
}

fn push_shown(out: &mut String, value: &Value, budget: &Budget<'_>) -> Result<(), EvalError> {
    match value {
        Value::Null | Value::List(_) | Value::Map(_) => {
            let before = out.len();
            value.write_json(out, MAX_CONTEXT_BYTES, budget)?;
            budget.build_text(2 * (out.len() - before))
        }
        Value::Bool(_)
        | Value::Int(_)
        | Value::Double(_)
        | Value::Text(_)
        | Value::Time(_)
        | Value::Span(_) => {
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
