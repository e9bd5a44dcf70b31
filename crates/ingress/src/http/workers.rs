//! Who is up.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_core::id::WorkerId;
use millstream_core::status::Role;
use millstream_core::time::Timestamp;
use serde::Serialize;

use super::problem::Problem;
use super::route::Route;
use super::views::Page;
use crate::auth::Reader;
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workers", "list_workers", list)
            .summary("Workers that were heard of lately")
            .needs(Role::Read)
            .answer(200, "WorkerPage", "All of them, by id"),
    ]
}

#[derive(Debug, Serialize)]
struct WorkerOut {
    worker_id: WorkerId,
    started_at: Timestamp,
    seen_at: Timestamp,
    lanes: Vec<u8>,
    in_flight: i32,
    version: String,
}

async fn list(
    State(door): State<Arc<Door>>,
    Reader(_): Reader,
    params: Params,
) -> Result<Json<Page<WorkerOut>>, Problem> {
    params.finish()?;
    let since = door.clock.now().minus(door.options.worker_ttl);
    let found = door.stores.workers.workers(since).await?;
    let items = found.into_iter().map(|view| WorkerOut {
        worker_id: view.beat.worker,
        started_at: view.beat.started_at,
        seen_at: view.seen_at,
        lanes: view.beat.lanes,
        in_flight: view.beat.in_flight,
        version: view.beat.version,
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}
