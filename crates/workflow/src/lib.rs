//! Workflows: definitions, graphs, the execution log, and the machines that decide events.
//!
//! Pure, like the crates below it (`millstream_model`, `millstream_expr`, `millstream_devices`,
//! `millstream_people`): nothing performs I/O, reads a clock or draws a random number. Time, randomness and ids
//! are arguments.
//!
//! Reading order, each module after those that it uses: [`definition`] and [`graph`] (what users write), [`log`]
//! (what the store records), [`event_submission`], [`visit_limits`], [`machine`] and [`definition_parser`], [`graph_machine`], [`program`]
//! (either machine); then actions: [`settle_outcome`], [`action`], [`schedule`], [`lease_policy`], [`quota_caps`], [`item_conclusion`].

pub mod action;
pub mod definition;
pub mod definition_parser;
pub mod event_submission;
pub mod graph;
pub mod graph_machine;
pub mod item_conclusion;
pub mod lease_policy;
pub mod log;
pub mod machine;
pub mod program;
pub mod quota_caps;
pub mod schedule;
pub mod settle_outcome;
pub mod visit_limits;
