//! Entry point: parses a source text into a definition or a list of all its problems.

use super::limits::{MAX_PROBLEMS, MAX_SOURCE_BYTES};
use super::{Definition, check, document, read, sources};
use crate::problem::{Problem, Problems};
use crate::raw::RawJson;

/// Source format of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

/// Reads and checks a definition. The error holds every problem with its path, in document order where
/// possible; beyond [`MAX_PROBLEMS`] they are only counted.
pub fn parse(source: &str, format: Format) -> Result<Definition, Problems> {
    let document = document::parse(source, format)?;
    let (definition, mut problems) = read::definition(&document);
    check::definition(&definition, &mut problems);
    sources::check(&definition, &mut problems);
    if problems.is_empty() {
        return match unreadable(&definition) {
            None => Ok(definition),
            Some(problem) => Err(problem.into()),
        };
    }
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(Problem::new("", format!("and {more} more problems")));
    }
    Err(Problems(problems))
}

/// Why the stored form could not be read back. The store keeps the canonical text, in which every default
/// and every alias is written out: it can be longer and deeper than the source.
fn unreadable(definition: &Definition) -> Option<Problem> {
    let canonical = definition.canonical_json();
    if canonical.len() > MAX_SOURCE_BYTES {
        let length = canonical.len();
        let message = format!(
            "is {length} bytes long in canonical form (defaults written out), at most {MAX_SOURCE_BYTES} allowed"
        );
        return Some(Problem::new("", message));
    }
    let error = RawJson::parse(&canonical).err()?;
    Some(Problem::new("", format!("the canonical form (defaults written out) is {error}")))
}
