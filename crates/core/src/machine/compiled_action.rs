//! The compiled side of an action: how its input is rendered, and what rendering will need.

use std::collections::BTreeMap;

use super::capture::Captures;
use super::input::{ActionInput, HttpRequest};
use crate::definition::{ActionKind, ActionSpec, Method, Text};
use crate::expr::template::{Compiled, CompiledText, Target};
use crate::expr::{EvalError, Root, Scope, Step, Vocabulary};
use crate::problem::Problem;

#[derive(Debug)]
pub(super) struct CompiledAction {
    form: Form,
    /// What an action that waits for others has to remember.
    pub(super) captures: Captures,
}

#[derive(Debug)]
enum Form {
    Log(CompiledText),
    Noop(Compiled),
    Http { method: Method, url: CompiledText, headers: Vec<(String, CompiledText)>, body: Option<Compiled> },
}

impl CompiledAction {
    pub(super) fn compile(spec: &ActionSpec, problems: &mut Vec<Problem>) -> Self {
        let mut compiler = Compiler { vocabulary: Vocabulary::Action { needs: &spec.needs }, problems };
        let path = format!("actions.{}", spec.name);
        let form = match &spec.kind {
            ActionKind::Log { text } => Form::Log(compiler.text(&format!("{path}.log"), text)),
            ActionKind::Noop { value } => Form::Noop(compiler.tree(&format!("{path}.noop"), value)),
            ActionKind::Http(http) => Form::Http {
                method: http.method,
                url: compiler.text(&format!("{path}.http.url"), &http.url),
                headers: http
                    .headers
                    .iter()
                    .map(|(name, text)| {
                        (name.clone(), compiler.text(&format!("{path}.http.headers.{name}"), text))
                    })
                    .collect(),
                body: http.body.as_ref().map(|body| compiler.tree(&format!("{path}.http.body"), body)),
            },
        };
        let mut captures = Captures::default();
        form.references(&mut |root, path| captures.add(root, path));
        Self { form, captures }
    }

    pub(super) fn render(&self, scope: &Scope<'_>) -> Result<ActionInput, EvalError> {
        match &self.form {
            Form::Log(text) => Ok(ActionInput::Log(text.render(scope, Target::Line)?)),
            Form::Noop(value) => Ok(ActionInput::Noop(value.render(scope)?)),
            Form::Http { method, url, headers, body } => {
                let mut rendered = BTreeMap::new();
                for (name, text) in headers {
                    let value = text
                        .render(scope, Target::Header)
                        .map_err(|error| EvalError(format!("header {name}: {error}")))?;
                    rendered.insert(name.clone(), value);
                }
                let url =
                    url.render(scope, Target::Url).map_err(|error| EvalError(format!("url: {error}")))?;
                let body = match body {
                    None => None,
                    Some(body) => {
                        let body = body.render(scope).map_err(|error| EvalError(format!("body: {error}")))?;
                        (body.as_str() != "null").then_some(body)
                    }
                };
                Ok(ActionInput::Http(HttpRequest { method: *method, url, headers: rendered, body }))
            }
        }
    }
}

impl Form {
    fn references<'s>(&'s self, visit: &mut dyn FnMut(Root, &'s [Step])) {
        match self {
            Self::Log(text) => text.references(visit),
            Self::Noop(value) => value.references(visit),
            Self::Http { method: _, url, headers, body } => {
                url.references(visit);
                headers.iter().for_each(|(_, text)| text.references(visit));
                if let Some(body) = body {
                    body.references(visit);
                }
            }
        }
    }
}

struct Compiler<'a> {
    vocabulary: Vocabulary<'a>,
    problems: &'a mut Vec<Problem>,
}

impl Compiler<'_> {
    fn text(&mut self, path: &str, text: &Text) -> CompiledText {
        CompiledText::compile(text, self.vocabulary).unwrap_or_else(|messages| {
            self.problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
            CompiledText::empty()
        })
    }

    fn tree(&mut self, path: &str, template: &crate::definition::Template) -> Compiled {
        let mut found = Vec::new();
        let compiled = Compiled::compile(template, self.vocabulary, path, &mut found);
        self.problems.extend(found.into_iter().map(|(path, message)| Problem::new(path, message)));
        compiled
    }
}
