//! Explains a run: the status of its seats, and the score cards of the last device selections.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_devices::claim::{RunInputKind, SeatStatus};
use millstream_model::id::{RunId, RunKey};
use millstream_model::permission::Permission;
use millstream_store::run_store::RunEntry;
use serde::Serialize;

use super::read::RunEntryOut;
use super::views::SeatOut;
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
            .answer(200, "RunWhy", "The status of the run, and its reasons")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct RunWhyOut {
    run_id: RunId,
    status: SeatStatus,
    paused: bool,
    seats: Vec<SeatOut>,
    /// The last selections, in order; `detail` has the score cards.
    decisions: Vec<RunEntryOut>,
}

async fn explain_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunWhyOut>, RequestRefusal> {
    params.finish_params()?;
    let key = runs::parse_run_key(&caller, &id)?;
    let run = runs::find_run(&door.devices, &key).await?.run;
    let decisions = last_selections(&door, &key).await?;
    Ok(Json(RunWhyOut {
        status: run.status(),
        paused: run.is_paused(),
        seats: run.numbered_seats().map(|(number, _)| SeatOut::of(&run, number, false)).collect(),
        decisions: decisions.into_iter().map(RunEntryOut::from).collect(),
        run_id: key.run,
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
