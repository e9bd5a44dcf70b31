//! Workflow definitions, dialect 1: typed model, reading from the document tree, name resolution, canonical form.
//!
//! `read` builds the typed definition ([`model`]) from a document, and `check` resolves every name to its
//! declaration. [`definition_parser`](crate::definition_parser) runs both and compiles every expression: only it
//! gives a definition to others.
//!
//! Nothing in here decides anything about an execution.

pub mod actions;
mod canonical;
mod canonical_action;
mod check;
pub mod limits;
pub mod model;
mod read;
mod read_action;
mod read_device;
mod read_kind;
mod read_policy;
mod read_state;
mod read_task_for;

pub use actions::{
    ActionKind, ActionPolicy, ActionSpec, ActionTimeouts, DeviceSpec, EmitSpec, EmitTarget, FailureRule,
    HttpMethod, HttpSpec, ParentClose, StartSpec, StatusPattern, TaskForSpec, TaskSpec, WaitSpec,
    WebhookSpec,
};
pub use model::{
    Definition, FinalStateKind, ResponseMode, StateKind, StateSpec, TimerSpec, TransitionAlternative,
};

pub(crate) use check::{alternative_path, check_definition};
pub(crate) use read::read_definition;
