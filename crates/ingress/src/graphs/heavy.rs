//! Work that grows with a graph is done beside the threads that serve everybody.

use crate::http::problem::{Kind, Problem};

/// Below this many bytes moving the work elsewhere costs more than the work.
const SMALL: usize = 64 * 1024;

/// Runs `work`, which is about so many bytes.
pub(crate) async fn heavy<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if bytes < SMALL {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "work on a graph was cut short");
        Problem::new(Kind::Internal, "the graph could not be worked on")
    })
}
