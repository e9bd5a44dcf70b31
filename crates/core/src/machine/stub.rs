//! Placeholder.
use std::collections::BTreeMap;

use crate::definition::{ActionSpec, Definition};
use crate::id::{EventId, Name, Seq};
use crate::log::{Applied, Outcome, State, Transition, Turn, Waiting};
use crate::problem::Problems;
use crate::raw::RawJson;
use crate::status::PauseState;
use crate::time::Timestamp;

/// A definition with its expressions compiled.
#[derive(Debug)]
pub struct Machine {
    definition: Definition,
}

impl Machine {
    pub fn compile(definition: Definition) -> Result<Machine, Problems> {
        Ok(Self { definition })
    }
    pub fn definition(&self) -> &Definition {
        &self.definition
    }
    pub fn mentions(&self, event: &Name) -> bool {
        self.definition.states().values().any(|state| state.on.contains_key(event))
    }
    pub fn handles(&self, state: &Name, event: &Name) -> bool {
        self.definition
            .states()
            .get(state)
            .is_some_and(|state| state.on.contains_key(event) || state.defer.contains(event))
    }
    pub fn action(&self, name: &Name) -> Option<&ActionSpec> {
        self.definition.actions().get(name)
    }
}

/// Why nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    pub reason: String,
}

pub fn create(
    _machine: &Machine,
    _event_id: EventId,
    _input: &RawJson,
    _now: Timestamp,
) -> Result<(Applied, State), Rejection> {
    Err(Rejection { reason: "not yet".to_owned() })
}

pub fn step(_machine: &Machine, _state: &State, _event: &Waiting, _now: Timestamp) -> Outcome {
    Outcome::Rejected { reason: "not yet".to_owned() }
}

pub fn turn(
    _machine: &Machine,
    state: State,
    _mailbox: &[Waiting],
    _pause: PauseState,
    _now: Timestamp,
) -> Turn {
    Turn { outcomes: Vec::new(), state }
}

pub fn render(
    _machine: &Machine,
    _action: &Name,
    _scope: &RawJson,
    _results: &BTreeMap<Name, RawJson>,
) -> Result<RawJson, String> {
    Err("not yet".to_owned())
}

/// An applied event as history holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub transition: Transition,
    pub payload: RawJson,
    pub accepted_at: Timestamp,
}

/// One point at which deciding again gives something else than the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub seq: Seq,
    pub recorded: String,
    pub decided: String,
}

pub fn redecide(_machine: &Machine, _history: &[Recorded]) -> Vec<Difference> {
    Vec::new()
}
