//! Reads runs: one, a list, and the log of a run.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::claim::{Entry, Status};
use millstream_core::id::{ExecutionId, Name};
use millstream_core::permission::Permission;
use millstream_store::run_store::{RunEntry, RunFilter, StoredRun};
use serde::Serialize;

use super::views::RunOut;
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::devices::runs;
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs", "list_runs", list)
            .summary("Runs, the newest first, without their inputs and outputs")
            .needs(Permission::ReadData)
            .query(&[
                ("status", "RunStatus"),
                ("kind", "Name"),
                ("execution_id", "ExecutionId"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .answer(200, "RunPage", "One page"),
        Route::get("/v1/runs/{run_id}", "get_run", get)
            .summary("One run with its seats, their devices and their previous devices")
            .needs(Permission::ReadData)
            .answer(200, "Run", "The run")
            .problems(&[404]),
        Route::get("/v1/runs/{run_id}/log", "get_run_log", log)
            .summary("What happened to a run, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "RunLogPage", "One page")
            .problems(&[404]),
    ]
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<RunOut>>, Problem> {
    let filter = RunFilter {
        status: params.word("status", Status::ALL),
        kind: params.parsed("kind", |text| Name::parse(text)),
        execution: params.parsed("execution_id", |text| ExecutionId::parse(text)),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Runs, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish()?;
    let found = door.stores.run_views.list_runs(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &StoredRun| cursor::encode(List::Runs, last.position);
    Ok(Json(Page::of(found, limit, cursor, RunOut::brief)))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    let key = runs::key_of(&caller, &id)?;
    let stored = runs::find(&door, &key).await?;
    Ok(Json(RunOut::whole(key.run, stored.run)))
}

#[derive(Debug, Serialize)]
pub(super) struct EntryOut {
    position: i64,
    #[serde(flatten)]
    entry: Entry,
}

impl From<RunEntry> for EntryOut {
    fn from(RunEntry { position, entry }: RunEntry) -> Self {
        Self { position, entry }
    }
}

async fn log(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<EntryOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::RunLog, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish()?;
    let key = runs::key_of(&caller, &id)?;
    runs::find(&door, &key).await?;
    let found = door.stores.run_views.run_log(&key, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &RunEntry| cursor::encode(List::RunLog, last.position);
    Ok(Json(Page::of(found, limit, cursor, EntryOut::from)))
}
