//! The way in: a text becomes a definition, or a list of everything that is wrong with it.

use super::limits::MAX_PROBLEMS;
use super::{Definition, check, document, read, sources};
use crate::problem::{Problem, Problems};

/// What a definition is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

/// Reads and checks a definition. The error holds every problem with its path, in the order of the
/// document as far as that can be told; past a hundred they are only counted.
pub fn parse(source: &str, format: Format) -> Result<Definition, Problems> {
    let document = document::parse(source, format)?;
    let (definition, mut problems) = read::definition(&document);
    check::definition(&definition, &mut problems);
    sources::check(&definition, &mut problems);
    if problems.is_empty() {
        return Ok(definition);
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
