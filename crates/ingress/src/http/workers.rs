//! Lists the live workers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_api::page::Page;
use millstream_api::status::WorkerView;
use millstream_model::id::WorkerId;
use millstream_model::permission::Permission;
use sha2::{Digest, Sha256};

use super::route::Route;
use crate::auth::CallerIdentity;
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workers", "list_workers", list_workers)
            .summary("Workers with a recent heartbeat")
            .needs(Permission::SeeStatus)
            .returns::<Page<WorkerView>>(200, "All of them; ids name host and process for operators only"),
    ]
}

/// A stable digest of a worker id, without its host and process id.
fn worker_digest(worker: &WorkerId) -> String {
    let digest = Sha256::digest(worker.as_str().as_bytes());
    format!("worker-{}", digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>())
}

async fn list_workers(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    params: QueryParams,
) -> Result<Json<Page<WorkerView>>, RequestRefusal> {
    params.finish_params()?;
    let since = door.clock.now().minus(door.options.worker_ttl);
    let found = door.stores.workers.list_workers(since).await?;
    let sees_hosts = identity.permits(Permission::SeeFleet);
    let items = found.into_iter().map(|view| WorkerView {
        worker_id: if sees_hosts { view.beat.worker.to_string() } else { worker_digest(&view.beat.worker) },
        started_at: view.beat.started_at,
        seen_at: view.seen_at,
        lanes: view.beat.lanes,
        in_flight: view.beat.in_flight,
        version: view.beat.version,
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}
