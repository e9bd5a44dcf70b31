//! Performing the actions of committed transitions.
//!
//! An action arrives here leased, as a [`LeasedWork`](crate::leasing::LeasedWork); it leaves as an
//! [`AttemptReport`](attempt::AttemptReport) to [`crate::settle`]. In between no lock is held and no transaction is
//! open. Reading order: [`performer`] (what all attempts share), [`fair_start`] (which attempt begins next),
//! [`attempt`] (one attempt from beginning to end), [`attempt_contract`], [`run_action`] (the dispatch over the kinds
//! of actions), then one file per kind of action. [`run_environment`] and [`item_environment`] settle the actions
//! that wait for devices and for people.

pub(crate) mod address_guard;
pub(crate) mod attempt;
pub(crate) mod attempt_contract;
pub(crate) mod call;
pub(crate) mod device;
pub(crate) mod dispatch_recorder;
pub(crate) mod emit;
pub(crate) mod fair_start;
pub(crate) mod graph_inputs;
pub(crate) mod http;
pub(crate) mod http_answer;
pub(crate) mod http_request;
pub(crate) mod item_environment;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod node_attempt;
pub(crate) mod node_child;
pub(crate) mod node_client;
pub(crate) mod noop;
pub(crate) mod outcome;
pub(crate) mod parent_child;
pub(crate) mod performer;
pub(crate) mod run_action;
pub(crate) mod run_environment;
pub(crate) mod secrets;
pub(crate) mod start;
pub(crate) mod task_for;
pub(crate) mod trace_context;
pub(crate) mod wait;
pub(crate) mod webhook;

pub use attempt_contract::AttemptCredentials;
pub use call::{ActionCall, PerformCalls};
pub use http_request::{HttpRequest, PerformHttp};
pub use node_client::PerformNodes;
pub use secrets::SecretSource;

pub(crate) use performer::{ActionPerformer, PerformerClients};
