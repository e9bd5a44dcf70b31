//! Performing the actions of committed transitions.
//!
//! An action arrives here leased, as an [`LeasedWork`]; it leaves as a report to [`crate::settle`]. In between no
//! lock is held and no transaction is open. Reading order: [`action_slots`] and [`leases`] (what an errand holds),
//! [`leased_work`], [`fair_start`] (which attempt begins next), [`attempt`] (one attempt from beginning to end),
//! then one file per kind of action.

pub(crate) mod action_slots;
pub(crate) mod address_guard;
pub(crate) mod attempt;
pub(crate) mod call;
pub(crate) mod device;
pub(crate) mod dispatch_recorder;
pub(crate) mod emit;
pub(crate) mod fair_start;
pub(crate) mod graph_inputs;
pub(crate) mod http;
pub(crate) mod http_answer;
pub(crate) mod leased_work;
pub(crate) mod leases;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod node_child;
pub(crate) mod node_slots;
pub(crate) mod noop;
pub(crate) mod outcome;
pub(crate) mod parent_child;
pub(crate) mod secrets;
pub(crate) mod start;
pub(crate) mod task_for;
pub(crate) mod tenant_slots;
pub(crate) mod trace_context;
pub(crate) mod wait;
pub(crate) mod webhook;

pub use call::{ActionCall, AttemptBeat, AttemptPulse, PerformCalls};

pub(crate) use leased_work::{ActionRunner, LeasedWork};
pub use leased_work::{AttemptCredentials, HttpRequest, PerformHttp};
pub use node::PerformNodes;
pub use secrets::SecretSource;
