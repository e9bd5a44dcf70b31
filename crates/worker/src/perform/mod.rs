//! Performing the actions of committed transitions.
//!
//! An action arrives here leased, as an [`Errand`]; it leaves as a report to [`crate::settle`]. In between no
//! lock is held and no transaction is open. Reading order: [`slots`] and [`leases`] (what an errand holds),
//! [`errand`], [`start_queue`] (which attempt begins next), [`attempt`] (one attempt from beginning to end),
//! then one file per kind of action.

pub(crate) mod address_guard;
pub(crate) mod answer;
pub(crate) mod attempt;
pub(crate) mod call;
pub(crate) mod device;
pub(crate) mod dispatches;
pub(crate) mod emit;
pub(crate) mod errand;
pub(crate) mod family;
pub(crate) mod http;
pub(crate) mod inputs;
pub(crate) mod leases;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod node_child;
pub(crate) mod node_slots;
pub(crate) mod noop;
pub(crate) mod outcome;
pub(crate) mod secrets;
pub(crate) mod slots;
pub(crate) mod start;
pub(crate) mod start_queue;
pub(crate) mod task_for;
pub(crate) mod tenant_slots;
pub(crate) mod trace;
pub(crate) mod wait;
pub(crate) mod webhook;

pub use call::{Beat, Call, PerformCalls, Pulse};

pub use errand::{Credentials, HttpRequest, PerformHttp};
pub(crate) use errand::{Errand, Performers};
pub use node::PerformNodes;
pub use secrets::Secrets;
