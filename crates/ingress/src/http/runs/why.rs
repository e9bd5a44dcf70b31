//! Explains a run: the status of its seats, and the score cards of the last device selections.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::run_log::RunWhy;
use millstream_devices::claim::RunInputKind;
use millstream_model::id::RunKey;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_store::run_store::RunEntry;

use super::views::{RunDetail, run_log_line, run_seats};
use super::words::run_status;
use crate::auth::TenantCaller;
use crate::devices::runs;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

/// Number of selections that are shown.
const LAST: usize = 10;
/// Number of log entries that are read.
const LINES: usize = 200;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{run_id}/why", "why_run", explain_run)
            .summary("Explain a run: the last device selections, with the score of every device")
            .needs(Permission::ReadData)
            .returns::<RunWhy>(200, "The status of the run, and its reasons")
            .problems(&[404]),
    ]
}

async fn explain_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunWhy<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let key = runs::parse_run_key(&caller, &id)?;
    let run = runs::find_run(&door.devices, &key).await?.run;
    let decisions = last_selections(&door, &key).await?;
    Ok(Json(RunWhy {
        status: run_status(run.status()),
        paused: run.is_paused(),
        seats: run_seats(&run, RunDetail::Brief),
        decisions: decisions.into_iter().map(run_log_line).collect(),
        run_id: key.run.to_string(),
    }))
}

/// Reads only the end of the log, because the log grows with every assignment: only a few entries lie between
/// two selections.
async fn last_selections(door: &IngressState, key: &RunKey) -> Result<Vec<RunEntry>, RequestRefusal> {
    let end = door.stores.run_views.run_log_end(key, LINES).await?;
    let decisions: Vec<RunEntry> = end.into_iter().filter(is_selection).collect();
    let before = decisions.len().saturating_sub(LAST);
    Ok(decisions.into_iter().skip(before).collect())
}

fn is_selection(entry: &RunEntry) -> bool {
    let chosen =
        [RunInputKind::Assign, RunInputKind::SelfClaim, RunInputKind::NobodyViable, RunInputKind::NobodyLeft];
    entry.entry.detail.is_some() && chosen.contains(&entry.entry.word)
}
