//! Static paths: the external references of an expression.

/// The root of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathRoot {
    Context,
    Event,
    Now,
    Results,
    Response,
    Input,
    Answer,
    Item,
    Person,
}

impl PathRoot {
    /// Its name in expressions.
    pub(super) const fn root_name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Event => "event",
            Self::Now => "now",
            Self::Results => "results",
            Self::Response => "response",
            Self::Input => "input",
            Self::Answer => "answer",
            Self::Item => "item",
            Self::Person => "person",
        }
    }
}

/// One step of a static path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    Field(String),
    Index(i64),
}

/// A static path, and whether its value or its presence is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSlot {
    pub(super) root: PathRoot,
    pub(super) path: Vec<PathStep>,
    pub(super) want: SlotAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotAccess {
    Value,
    /// `has(path)`.
    Presence,
}
