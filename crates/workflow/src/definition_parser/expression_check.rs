//! Expression check: compiles every expression of a definition once, to report its problems.

use millstream_expr::template::CompiledTemplate;
use millstream_expr::{CelProgram, ExprVocabulary, ValueTemplate};
use millstream_model::problem::ValidationProblem;

use crate::definition::{Definition, alternative_path};
use crate::machine;

pub(super) fn check_expressions(definition: &Definition, problems: &mut Vec<ValidationProblem>) {
    for (state, spec) in definition.states() {
        for (event, alternatives) in &spec.on {
            for (n, alternative) in alternatives.iter().enumerate() {
                let path = alternative_path(state, event, n, alternatives.len());
                if let Some(source) = &alternative.guard
                    && let Err(messages) = CelProgram::compile(source, ExprVocabulary::Decision)
                {
                    report_messages(&format!("{path}.if"), messages, problems);
                }
                for (key, template) in &alternative.set {
                    check_template(
                        &format!("{path}.set.{key}"),
                        template,
                        ExprVocabulary::Decision,
                        problems,
                    );
                }
            }
        }
    }
    if let Some(source) = definition.correlate()
        && let Err(messages) = CelProgram::compile(source, ExprVocabulary::Context)
    {
        report_messages("correlate", messages, problems);
    }
    for spec in definition.actions().values() {
        machine::action_problems(spec, problems);
    }
}

fn check_template(
    path: &str,
    template: &ValueTemplate,
    vocabulary: ExprVocabulary<'_>,
    problems: &mut Vec<ValidationProblem>,
) {
    let mut found = Vec::new();
    CompiledTemplate::compile(template, vocabulary, path, &mut found);
    problems.extend(found.into_iter().map(|(path, message)| ValidationProblem::new(path, message)));
}

fn report_messages(path: &str, messages: Vec<String>, problems: &mut Vec<ValidationProblem>) {
    problems.extend(messages.into_iter().map(|message| ValidationProblem::new(path, message)));
}
