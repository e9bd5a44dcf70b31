//! Entry point: parses a source text into a definition or a list of all its problems.

use millstream_model::document::{MAX_SOURCE_BYTES, SourceFormat, parse_document};
use millstream_model::problem::{ValidationProblem, ValidationProblems};
use millstream_model::raw::RawJson;

use super::expression_check::check_expressions;
use crate::definition::limits::MAX_PROBLEMS;
use crate::definition::{Definition, check_definition, read_definition};

/// Reads and checks a definition. The error holds every problem with its path, in document order where
/// possible; beyond [`MAX_PROBLEMS`] they are only counted.
pub fn parse(source: &str, format: SourceFormat) -> Result<Definition, ValidationProblems> {
    let document = parse_document(source, format)?;
    let (definition, mut problems) = read_definition(&document);
    check_definition(&definition, &mut problems);
    check_expressions(&definition, &mut problems);
    if problems.is_empty() {
        return match readback_problem(&definition) {
            None => Ok(definition),
            Some(problem) => Err(problem.into()),
        };
    }
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(ValidationProblem::new("", format!("and {more} more problems")));
    }
    Err(ValidationProblems(problems))
}

/// Why the stored form could not be read back. The store keeps the canonical text, in which every default
/// and every alias is written out: it can be longer and deeper than the source.
fn readback_problem(definition: &Definition) -> Option<ValidationProblem> {
    let canonical = definition.canonical_json();
    if canonical.len() > MAX_SOURCE_BYTES {
        let length = canonical.len();
        let message = format!(
            "is {length} bytes long in canonical form (defaults written out), at most {MAX_SOURCE_BYTES} allowed"
        );
        return Some(ValidationProblem::new("", message));
    }
    let error = RawJson::parse(&canonical).err()?;
    Some(ValidationProblem::new("", format!("the canonical form (defaults written out) is {error}")))
}
