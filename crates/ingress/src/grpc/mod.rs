//! The gRPC services, on the same port as everything else: they translate, what happens is elsewhere.
//!
//! Reading order follows a call: `routes` (which services there are), `telling` (ids, the log
//! line), `intake` (what is refused before anybody looks at it),
//! `methods` (what the key of the caller must permit), `call` (who is calling), then one file per
//! service or stream. `status` is the one place that makes a gRPC status of what went wrong.

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
