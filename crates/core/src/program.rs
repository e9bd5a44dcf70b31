//! The decider of an execution: the state machine of its definition, or the graph in its own log.

use std::borrow::Cow;
use std::sync::Arc;

use crate::definition::ActionSpec;
use crate::effort::VisitLimits;
use crate::graph;
use crate::id::{DefinitionRef, Name};
use crate::log::{State, Turn, Waiting};
use crate::machine::{self, Machine};
use crate::status::PauseState;
use crate::time::Timestamp;

/// The decider of an execution. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Program {
    Machine(Arc<Machine>),
    /// The same for all graphs: the graph itself is part of the state.
    Graph,
}

impl Program {
    /// The built-in program, which needs no definition.
    pub fn built_in(definition: &DefinitionRef) -> Option<Self> {
        (definition.name == Name::graph()).then_some(Self::Graph)
    }

    /// Decides a slice of a mailbox.
    pub fn turn(&self, state: State, mailbox: &[Waiting], pause: PauseState, now: Timestamp) -> Turn {
        match self {
            Self::Machine(machine) => machine::turn(machine, state, mailbox, pause, now),
            Self::Graph => graph::turn(state, mailbox, pause, now),
        }
    }

    /// Decides a slice of a mailbox and ends early at the limits.
    pub fn turn_within(
        &self,
        state: State,
        mailbox: &[Waiting],
        pause: PauseState,
        now: Timestamp,
        limits: VisitLimits<'_>,
    ) -> Turn {
        match self {
            Self::Machine(machine) => machine::turn_within(machine, state, mailbox, pause, now, limits),
            Self::Graph => graph::turn_within(state, mailbox, pause, now, limits),
        }
    }

    /// The spec of an action (retries, timeouts, result events), internal actions included.
    pub fn action(&self, name: &Name) -> Option<Cow<'_, ActionSpec>> {
        if let Some(internal) = machine::internal(name) {
            return Some(Cow::Owned(internal));
        }
        match self {
            Self::Machine(machine) => machine.action(name).map(Cow::Borrowed),
            Self::Graph => Some(Cow::Owned(graph::dispatch_spec(name))),
        }
    }

    pub fn machine(&self) -> Option<&Machine> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Graph => None,
        }
    }
}
