//! Explains a run: the status of its seats, and the score cards of the last device selections.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::claim::{Status, Word};
use millstream_core::id::{RunId, RunKey};
use millstream_core::permission::Permission;
use millstream_store::run_store::RunEntry;
use serde::Serialize;

use super::read::EntryOut;
use super::views::SeatOut;
use crate::auth::Caller;
use crate::devices::runs;
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::query::Params;

/// Number of selections that are shown.
const LAST: usize = 10;
/// Number of log entries that are read.
const LINES: usize = 200;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{run_id}/why", "why_run", why)
            .summary("Explain a run: the last device selections, with the score of every device")
            .needs(Permission::ReadData)
            .answer(200, "RunWhy", "The status of the run, and its reasons")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct WhyOut {
    run_id: RunId,
    status: Status,
    paused: bool,
    seats: Vec<SeatOut>,
    /// The last selections, in order; `detail` has the score cards.
    decisions: Vec<EntryOut>,
}

async fn why(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<WhyOut>, Problem> {
    params.finish()?;
    let key = runs::key_of(&caller, &id)?;
    let run = runs::find(&door, &key).await?.run;
    let decisions = decisions(&door, &key).await?;
    Ok(Json(WhyOut {
        status: run.status(),
        paused: run.is_paused(),
        seats: run.numbered().map(|(number, _)| SeatOut::of(&run, number, false)).collect(),
        decisions: decisions.into_iter().map(EntryOut::from).collect(),
        run_id: key.run,
    }))
}

/// Reads only the end of the log, because the log grows with every assignment: only a few entries lie between
/// two selections.
async fn decisions(door: &Door, key: &RunKey) -> Result<Vec<RunEntry>, Problem> {
    let end = door.stores.run_views.run_log_end(key, LINES).await?;
    let decisions: Vec<RunEntry> = end.into_iter().filter(is_decision).collect();
    let before = decisions.len().saturating_sub(LAST);
    Ok(decisions.into_iter().skip(before).collect())
}

fn is_decision(entry: &RunEntry) -> bool {
    let chosen = [Word::Assign, Word::SelfClaim, Word::NobodyViable, Word::NobodyLeft];
    entry.entry.detail.is_some() && chosen.contains(&entry.entry.word)
}
