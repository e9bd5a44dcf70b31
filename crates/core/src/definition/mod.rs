//! Workflow definitions in YAML or JSON, dialect 1: parsing, validation, canonical form.
//!
//! A source text is read in four passes, each of which reports all problems that it finds: [`document`] turns
//! YAML or JSON into one small tree (and stops hostile input), `read` builds the typed definition
//! ([`model`]), `check` resolves every name to its declaration, and the last pass compiles every expression.
//! Only a definition without problems leaves this module, so the machine never sees an unresolved name.
//!
//! Nothing in here decides anything about an execution.

pub mod actions;
mod as_json;
mod canonical;
mod canonical_action;
mod check;
pub(crate) mod document;
pub mod limits;
pub mod model;
mod parse;
pub(crate) mod read;
mod read_action;
mod read_device;
mod read_kind;
mod read_policy;
mod read_state;
mod read_task_for;
pub(crate) mod reader;
mod sources;
mod suggest;
mod template;
#[cfg(test)]
mod tests;
mod yaml;

pub use actions::{
    ActionKind, ActionSpec, DeviceSpec, EmitSpec, EmitTarget, FailureRule, HttpSpec, Method, ParentClose,
    StartSpec, StatusPattern, TaskForSpec, TaskSpec, Timeouts, WaitSpec, WebhookSpec,
};
pub use as_json::as_json;
pub use model::{Alternative, Definition, Ending, Mode, StateKind, StateSpec, TimerSpec};

pub use parse::{Format, parse};
pub use suggest::did_you_mean;
pub use template::{Part, Template, Text};
