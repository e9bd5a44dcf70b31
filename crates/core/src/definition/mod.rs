//! What users write: the definition of a workflow, dialect 1.
//!
//! A text is read in four passes, each of which reports everything it finds: [`document`] turns YAML
//! or JSON into one small tree (and is where hostile input ends), `read` gives the tree its shape
//! ([`model`]), `check` follows every name from where it is used to where it is declared, and `source`
//! compiles every expression. Only a definition without a single problem leaves this module, so the
//! machine never meets a name that leads nowhere.
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
