//! Paths of problems in a message.
//!
//! A path is a chain on the stack and becomes text only when there is a problem to report: reading ten
//! thousand valid nodes writes no paths.

use std::fmt;

use millstream_core::problem::{Problem, Problems};

/// A place in a message, such as `nodes[3].parents[0].node`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: Part,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Root,
    Field(&'static str),
    At(usize),
}

impl Path<'_> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, part: Part::Root };

    pub(crate) fn field(&self, name: &'static str) -> Path<'_> {
        Path { parent: Some(self), part: Part::Field(name) }
    }

    pub(crate) fn at(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), part: Part::At(index) }
    }

    fn is_root(&self) -> bool {
        matches!(self.part, Part::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Field(name) if parent.is_none() => f.write_str(name),
            Part::Field(name) => write!(f, ".{name}"),
            Part::At(index) => write!(f, "[{index}]"),
        }
    }
}

/// Problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Problem>);

/// Upper bound of reported problems: a message may contain twenty thousand.
const ENOUGH: usize = 100;

impl Faults {
    pub(crate) fn add(&mut self, at: &Path<'_>, message: impl fmt::Display) {
        if self.0.len() < ENOUGH {
            self.0.push(Problem::new(at.to_string(), message.to_string()));
        }
    }

    /// The value, if there are no problems. Without a value there is always a problem.
    pub(crate) fn or<T>(self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(Problems(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_people_write_it() {
        let nodes = Path::ROOT.field("nodes");
        let node = nodes.at(3);
        let parents = node.field("parents");
        let parent = parents.at(0);
        assert_eq!(parent.field("node").to_string(), "nodes[3].parents[0].node");
        assert_eq!(Path::ROOT.to_string(), "");
    }
}
