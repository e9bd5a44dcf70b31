//! The gRPC services, on the same port as HTTP: they translate, the service modules act.
//!
//! Reading order follows a call: `routes` (the services), `call_log` (ids, access log, metrics), `admission`
//! (admission control), `methods` (permissions), `call` (the caller), then one file per service or stream.
//! `status` is the one place that maps refusals to gRPC statuses.

mod admission;
mod assignments;
mod call;
mod call_log;
mod devices;
mod executors;
mod health;
mod lease;
mod method_label;
mod methods;
mod paging;
mod routes;
mod run_acts;
mod status;
mod tasks;
mod updates;
mod watch;
mod whole_message;
mod workflows;

pub(crate) use methods::{METHODS, MethodAccess};
pub(crate) use routes::grpc_routes;
pub(crate) use status::unknown_path;
