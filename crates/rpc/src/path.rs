//! Paths of problems in a message.
//!
//! A path is a chain on the stack and becomes text only when there is a problem to report: reading ten
//! thousand valid nodes writes no paths.

use std::fmt;

use millstream_model::problem::{ValidationProblem, ValidationProblems};

/// A place in a message, such as `nodes[3].parents[0].node`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    part: PathPart,
}

#[derive(Debug, Clone, Copy)]
enum PathPart {
    Root,
    Field(&'static str),
    At(usize),
}

impl FieldPath<'_> {
    pub(crate) const ROOT: FieldPath<'static> = FieldPath { parent: None, part: PathPart::Root };

    pub(crate) fn field(&self, name: &'static str) -> FieldPath<'_> {
        FieldPath { parent: Some(self), part: PathPart::Field(name) }
    }

    pub(crate) fn at(&self, index: usize) -> FieldPath<'_> {
        FieldPath { parent: Some(self), part: PathPart::At(index) }
    }

    fn is_root(&self) -> bool {
        matches!(self.part, PathPart::Root)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.part {
            PathPart::Root => Ok(()),
            PathPart::Field(name) if parent.is_none() => f.write_str(name),
            PathPart::Field(name) => write!(f, ".{name}"),
            PathPart::At(index) => write!(f, "[{index}]"),
        }
    }
}

/// Problems found so far.
#[derive(Debug, Default)]
pub(crate) struct MessageFaults(Vec<ValidationProblem>);

/// Upper bound of reported problems: a message may contain twenty thousand.
const ENOUGH: usize = 100;

impl MessageFaults {
    pub(crate) fn add(&mut self, at: &FieldPath<'_>, message: impl fmt::Display) {
        if self.0.len() < ENOUGH {
            self.0.push(ValidationProblem::new(at.to_string(), message.to_string()));
        }
    }

    /// The value, if there are no problems. Without a value there is always a problem.
    pub(crate) fn finish_with<T>(self, value: Option<T>) -> Result<T, ValidationProblems> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(ValidationProblems(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_path_text_form() {
        let nodes = FieldPath::ROOT.field("nodes");
        let node = nodes.at(3);
        let parents = node.field("parents");
        let parent = parents.at(0);
        assert_eq!(parent.field("node").to_string(), "nodes[3].parents[0].node");
        assert_eq!(FieldPath::ROOT.to_string(), "");
    }
}
