//! Expression check: compiles every expression of a definition once, to report its problems.

use super::check::alternative_path;
use super::model::Definition;
use super::template::Template;
use crate::expr::template::Compiled;
use crate::expr::{Program, Vocabulary};
use crate::machine;
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
    if let Some(source) = definition.correlate()
        && let Err(messages) = Program::compile(source, Vocabulary::Context)
    {
        report("correlate", messages, problems);
    }
    for spec in definition.actions.values() {
        machine::action_problems(spec, problems);
    }
}

fn tree(path: &str, template: &Template, vocabulary: Vocabulary<'_>, problems: &mut Vec<Problem>) {
    let mut found = Vec::new();
    Compiled::compile(template, vocabulary, path, &mut found);
    problems.extend(found.into_iter().map(|(path, message)| Problem::new(path, message)));
}

fn report(path: &str, messages: Vec<String>, problems: &mut Vec<Problem>) {
    problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
}
