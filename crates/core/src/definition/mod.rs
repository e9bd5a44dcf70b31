//! What users write: the definition of a workflow, dialect 1.

pub mod model;
mod parse;
mod template;

pub use model::{
    ActionKind, ActionSpec, Alternative, Definition, Ending, HttpSpec, Method, Mode, StateKind, StateSpec,
    TimerSpec,
};
pub use parse::{Format, parse};
pub use template::{Part, Template, Text};
