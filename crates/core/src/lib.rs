//! The pure core of Millstream: vocabulary, definitions and the state machines that decide.
//!
//! Nothing in here performs I/O, reads a clock, draws a random number, awaits, or depends on the
//! iteration order of a hash map. Time, randomness and ids are arguments. That is what makes replay,
//! simulation and property tests possible.
//!
//! Reading order: vocabulary ([`id`], [`time`], [`raw`], [`status`], [`problem`]), the execution log
//! ([`log`]), workflow definitions ([`definition`], [`expr`]), the deciders ([`machine`], [`graph`],
//! [`claim`] with [`election`], [`assignment`], [`action`]), notifications ([`notice`]), and the small
//! decisions of the I/O layers ([`retry`], [`lane`], [`fair`], [`overdue_sweep`], [`network_policy`], [`permission`],
//! [`key_grant`]).

pub mod action;
pub mod action_queue;
pub mod assignment;
pub mod batch_pacing;
pub mod claim;
pub mod crash;
pub mod definition;
pub mod duration;
pub mod election;
pub mod entropy;
pub mod error_class;
pub mod expr;
pub mod fair;
pub mod graph;
pub mod id;
pub mod incident;
pub mod key_grant;
pub mod lane;
pub mod lease_policy;
pub mod log;
pub mod machine;
pub mod mutation;
pub mod network_policy;
pub mod notice;
pub mod overdue_sweep;
pub mod permission;
pub mod problem;
pub mod program;
pub mod quota;
pub mod raw;
mod redaction;
pub mod retry;
pub mod schedule;
pub mod secrets;
pub mod status;
pub mod time;
pub mod visit_limits;
