//! The pure core of Millstream: vocabulary, definitions and the state machines that decide.
//!
//! Nothing in here performs I/O, reads a clock, draws a random number, awaits, or depends on the
//! iteration order of a hash map. Time, randomness and ids are arguments. That is what makes replay,
//! simulation and property tests possible.
//!
//! Reading order: vocabulary ([`id`], [`time`], [`raw`], [`status`], [`problem`]), the execution log
//! ([`log`]), workflow definitions ([`definition`], [`expr`]), the deciders ([`machine`], [`graph`],
//! [`claim`] with [`election`], [`assignment`], [`action`]), notifications ([`notice`]), and the small
//! decisions of the I/O layers ([`retry`], [`lane`], [`fair`], [`sweep`], [`network_policy`], [`permission`],
//! [`key_grant`]).

pub mod action;
pub mod assignment;
pub mod claim;
pub mod crash;
pub mod definition;
pub mod duration;
pub mod effort;
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
pub mod log;
pub mod machine;
pub mod network_policy;
pub mod notice;
pub mod pace;
pub mod permission;
pub mod placement;
pub mod planted;
pub mod problem;
pub mod program;
pub mod quota;
pub mod raw;
mod redacting;
pub mod retry;
pub mod schedule;
pub mod sealed;
pub mod status;
pub mod sweep;
pub mod terms;
pub mod time;
