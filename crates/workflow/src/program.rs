//! The decider of an execution: the state machine of its definition, or the graph in its own log.

use std::borrow::Cow;
use std::sync::Arc;

use millstream_model::id::{DefinitionRef, Name};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;

use crate::definition::ActionPolicy;
use crate::graph;
use crate::graph_machine;
use crate::log::{ExecutionState, MailboxEvent, VisitDecisions};
use crate::machine::{self, Machine};
use crate::visit_limits::VisitLimits;

/// The decider of an execution. Cheap to clone.
#[derive(Debug, Clone)]
pub enum ExecutionProgram {
    Machine(Arc<Machine>),
    /// The same for all graphs: the graph itself is part of the state.
    Graph,
}

impl ExecutionProgram {
    /// The built-in program, which needs no definition.
    pub fn built_in(definition: &DefinitionRef) -> Option<Self> {
        (definition.name == Name::graph()).then_some(Self::Graph)
    }

    /// Decides a slice of a mailbox.
    pub fn decide_mailbox(
        &self,
        state: ExecutionState,
        mailbox: &[MailboxEvent],
        pause: PauseState,
        now: Timestamp,
    ) -> VisitDecisions {
        match self {
            Self::Machine(machine) => machine::decide_mailbox(machine, state, mailbox, pause, now),
            Self::Graph => graph_machine::decide_mailbox(state, mailbox, pause, now),
        }
    }

    /// Decides a slice of a mailbox and ends early at the limits.
    pub fn decide_mailbox_within(
        &self,
        state: ExecutionState,
        mailbox: &[MailboxEvent],
        pause: PauseState,
        now: Timestamp,
        limits: VisitLimits<'_>,
    ) -> VisitDecisions {
        match self {
            Self::Machine(machine) => {
                machine::decide_mailbox_within(machine, state, mailbox, pause, now, limits)
            }
            Self::Graph => graph_machine::decide_mailbox_within(state, mailbox, pause, now, limits),
        }
    }

    /// The policy of an action (retries, timeouts, result events), internal actions included.
    pub fn action_policy(&self, name: &Name) -> Option<Cow<'_, ActionPolicy>> {
        if let Some(internal) = machine::internal_action_policy(name) {
            return Some(Cow::Owned(internal));
        }
        match self {
            Self::Machine(machine) => machine.action_spec(name).map(|spec| Cow::Borrowed(&spec.policy)),
            Self::Graph => Some(Cow::Owned(graph::dispatch_policy())),
        }
    }

    pub fn machine(&self) -> Option<&Machine> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Graph => None,
        }
    }
}
