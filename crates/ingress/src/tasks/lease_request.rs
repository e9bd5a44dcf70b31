//! Limits of a request for tasks, and the worker that sends it.

use std::time::Duration;

use millstream_model::id::WorkerId;

use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Maximum number of tasks in one answer.
pub(crate) const MOST: usize = 256;
/// Maximum number of types or labels of one worker.
pub(crate) const MANY: usize = 64;
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long the store may take to answer a request without a wait.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Id of a worker that sends none.
const UNNAMED: &str = "unnamed";

/// The id that the worker sends, or the name of its key.
pub(crate) fn worker_of_caller(
    caller: &TenantCaller,
    named: Option<WorkerId>,
) -> Result<WorkerId, RequestRefusal> {
    match (named, caller.actor.as_deref().map(WorkerId::parse)) {
        (Some(worker), _) => Ok(worker),
        (None, Some(Ok(actor))) => Ok(actor),
        (None, Some(Err(_)) | None) => WorkerId::parse(UNNAMED)
            .map_err(|_| RequestRefusal::new(RefusalKind::Internal, "the worker has no name")),
    }
}
