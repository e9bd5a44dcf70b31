//! The typed model of a definition: checked, ordered, immutable.
//!
//! Expressions are kept as their source here; [`crate::machine::Machine`] compiles them once. States
//! are a flat map on purpose: hierarchy, regions and entry actions will be fields of [`StateSpec`] and
//! will not change how a state is found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_expr::ValueTemplate;
use millstream_model::context::ExecutionContext;
use millstream_model::id::Name;

use super::actions::ActionSpec;

/// A complete definition. Only [`crate::definition_parser::parse()`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub(super) name: Name,
    pub(super) mode: ResponseMode,
    pub(super) initial: Name,
    pub(super) context: ExecutionContext,
    pub(super) timeout: Option<Duration>,
    pub(super) correlate: Option<String>,
    pub(super) states: BTreeMap<Name, StateSpec>,
    pub(super) actions: BTreeMap<Name, ActionSpec>,
}

impl Definition {
    /// The dialect that this build reads and writes.
    pub const DIALECT: i64 = 1;

    pub fn name(&self) -> &Name {
        &self.name
    }

    pub fn mode(&self) -> ResponseMode {
        self.mode
    }

    pub fn initial(&self) -> &Name {
        &self.initial
    }

    /// The context that an execution starts with, before its input is merged over it.
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }

    /// Timeout of the whole execution.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// CEL over the context: the correlation key by which signals address an execution.
    pub fn correlate(&self) -> Option<&str> {
        self.correlate.as_deref()
    }

    pub fn states(&self) -> &BTreeMap<Name, StateSpec> {
        &self.states
    }

    pub fn actions(&self) -> &BTreeMap<Name, ActionSpec> {
        &self.actions
    }
}

/// Whether a caller waits for the outcome of an event by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    Async,
    Sync,
}

impl ResponseMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }
}

/// One state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateSpec {
    pub kind: StateKind,
    /// Per event the alternatives, in order of evaluation. Never an empty list.
    pub on: BTreeMap<Name, Vec<TransitionAlternative>>,
    /// Armed on entry; the position in the list is the timer's ordinal.
    pub after: Vec<TimerSpec>,
    pub defer: BTreeSet<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    Working,
    Final(FinalStateKind),
}

/// The phase that a final state gives the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalStateKind {
    Completed,
    Failed,
}

/// One of the ordered alternatives of an event in a state.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionAlternative {
    /// CEL that must be true; `None` always holds.
    pub guard: Option<String>,
    /// `None`: an internal transition, timers stay armed.
    pub to: Option<Name>,
    pub set: BTreeMap<String, ValueTemplate>,
    pub actions: Vec<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerSpec {
    pub delay: Duration,
    pub send: Name,
}
