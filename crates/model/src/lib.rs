//! The vocabulary that every crate of Millstream shares, and the small decisions of the I/O layers.
//!
//! Nothing in here knows workflows, devices or people. As in every pure crate (`expr`, `devices`, `people`,
//! `workflow`), nothing performs I/O, reads a clock, draws a random number, awaits, or depends on the iteration
//! order of a hash map. Time, randomness and ids are arguments. That is what makes replay, simulation and
//! property tests possible.
//!
//! Reading order: values ([`id`], [`time`], [`duration`], [`raw`], [`status`], [`error_class`], [`context`]); what
//! users write ([`document`], [`problem`], [`suggest`]); words of actions ([`attempt`], [`retry`], [`action_queue`],
//! [`secrets`], [`incident`]) and of notifications ([`notice`]); tenants ([`permission`], [`key_grant`], [`quota`],
//! [`network_policy`]); the small decisions ([`lane`], [`fair`], [`batch_pacing`], [`overdue_sweep`], [`entropy`]);
//! and the hooks of the tests ([`crash`], [`mutation`]).

pub mod action_queue;
pub mod attempt;
pub mod batch_pacing;
pub mod context;
pub mod crash;
pub mod document;
pub mod duration;
pub mod entropy;
pub mod error_class;
pub mod fair;
pub mod id;
pub mod incident;
pub mod key_grant;
pub mod lane;
pub mod mutation;
pub mod network_policy;
pub mod notice;
pub mod overdue_sweep;
pub mod permission;
pub mod problem;
pub mod quota;
pub mod raw;
mod redaction;
pub mod retry;
pub mod secrets;
pub mod status;
pub mod suggest;
pub mod time;
