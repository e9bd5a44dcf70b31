//! Performing the actions of committed transitions.
//!
//! An action arrives here leased, as a [`LeasedWork`](crate::leasing::LeasedWork); it leaves as an
//! [`AttemptReport`](attempt::AttemptReport) to [`crate::settle`]. In between no lock is held and no transaction is
//! open. Reading order: [`performer`] (what all attempts share), [`fair_start`] (which attempt begins next),
//! [`attempt`] (one attempt from beginning to conclusion), [`attempt_contract`], [`deferred_input`], [`run_action`] (the dispatch over the kinds
//! of actions), then one file per kind of action. [`run_environment`] and [`item_environment`] settle the actions
//! that wait for devices and for people.

mod address_guard;
pub(crate) mod attempt;
pub(crate) mod attempt_contract;
mod call;
mod deferred_input;
mod device;
pub(crate) mod dispatch_recorder;
mod emit;
mod fair_start;
mod graph_inputs;
pub(crate) mod http;
pub(crate) mod http_answer;
mod http_request;
mod item_environment;
mod node;
mod node_attempt;
mod node_child;
mod node_client;
mod parent_child;
mod performer;
mod run_action;
mod run_environment;
mod secrets;
mod start;
mod task_for;
mod trace_context;
pub(crate) mod webhook;

pub use attempt_contract::AttemptCredentials;
pub use call::{ActionCall, PerformCalls};
pub use http_request::{HttpRequest, PerformHttp};
pub use node_client::PerformNodes;
pub use secrets::SecretSource;

pub(crate) use performer::{ActionPerformer, PerformerClients};
