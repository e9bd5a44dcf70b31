//! Every expression of a definition is compiled once when it is applied, for its problems.

use super::check::alternative_path;
use super::model::{ActionKind, ActionSpec, Definition};
use super::template::{Template, Text};
use crate::expr::template::{Compiled, CompiledText};
use crate::expr::{Program, Vocabulary};
use crate::problem::Problem;

pub(super) fn check(definition: &Definition, problems: &mut Vec<Problem>) {
    for (state, spec) in &definition.states {
        for (event, alternatives) in &spec.on {
            for (n, alternative) in alternatives.iter().enumerate() {
                let path = alternative_path(state, event, n, alternatives.len());
                if let Some(source) = &alternative.guard
                    && let Err(messages) = Program::compile(source, Vocabulary::Decision)
                {
                    report(&format!("{path}.if"), messages, problems);
                }
                for (key, template) in &alternative.set {
                    tree(&format!("{path}.set.{key}"), template, Vocabulary::Decision, problems);
                }
            }
        }
    }
    for (name, spec) in &definition.actions {
        action(&format!("actions.{name}"), spec, problems);
    }
}

fn action(path: &str, spec: &ActionSpec, problems: &mut Vec<Problem>) {
    let vocabulary = Vocabulary::Action { needs: &spec.needs };
    match &spec.kind {
        ActionKind::Log { text: line } => text(&format!("{path}.log"), line, vocabulary, problems),
        ActionKind::Noop { value } => tree(&format!("{path}.noop"), value, vocabulary, problems),
        ActionKind::Http(http) => {
            text(&format!("{path}.http.url"), &http.url, vocabulary, problems);
            for (name, value) in &http.headers {
                text(&format!("{path}.http.headers.{name}"), value, vocabulary, problems);
            }
            if let Some(body) = &http.body {
                tree(&format!("{path}.http.body"), body, vocabulary, problems);
            }
        }
    }
}

fn tree(path: &str, template: &Template, vocabulary: Vocabulary<'_>, problems: &mut Vec<Problem>) {
    let mut found = Vec::new();
    Compiled::compile(template, vocabulary, path, &mut found);
    problems.extend(found.into_iter().map(|(path, message)| Problem::new(path, message)));
}

fn text(path: &str, text: &Text, vocabulary: Vocabulary<'_>, problems: &mut Vec<Problem>) {
    if let Err(messages) = CompiledText::compile(text, vocabulary) {
        report(path, messages, problems);
    }
}

fn report(path: &str, messages: Vec<String>, problems: &mut Vec<Problem>) {
    problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
}
