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
mod expression_check;
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
mod suggest;
mod template;
#[cfg(test)]
mod tests;
mod yaml;

pub use actions::{
    ActionKind, ActionSpec, ActionTimeouts, DeviceSpec, EmitSpec, EmitTarget, FailureRule, HttpMethod,
    HttpSpec, ParentClose, StartSpec, StatusPattern, TaskForSpec, TaskSpec, WaitSpec, WebhookSpec,
};
pub use as_json::as_json;
pub use model::{
    Definition, FinalStateKind, ResponseMode, StateKind, StateSpec, TimerSpec, TransitionAlternative,
};

pub use parse::{SourceFormat, parse};
pub use suggest::did_you_mean;
pub use template::{TextTemplate, TextTemplatePart, ValueTemplate};
