//! The gRPC services, on the same port as HTTP: they translate, the service modules act.
//!
//! Reading order follows a call: `routes` (the services), `telling` (ids, access log, metrics), `intake`
//! (admission control), `methods` (permissions), `call` (the caller), then one file per service or stream.
//! `status` is the one place that maps problems to gRPC statuses.

mod assignments;
mod call;
mod devices;
mod executors;
mod health;
mod intake;
mod lease;
mod method_label;
mod methods;
mod paging;
mod routes;
mod run_acts;
mod status;
mod tasks;
mod telling;
mod updates;
mod watch;
mod whole_message;
mod workflows;

pub(crate) use methods::{Access, METHODS};
pub(crate) use routes::routes;
pub(crate) use status::unknown_path;
