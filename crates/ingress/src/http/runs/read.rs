//! Reads runs: one, a list, and the log of a run.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::page::Page;
use millstream_api::run_log::RunLogLine;
use millstream_api::runs::RunSummary;
use millstream_devices::claim::SeatStatus;
use millstream_model::id::{ExecutionId, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_store::run_store::{RunEntry, RunFilter, StoredRun};

use super::views::{RunDetail, run_in_list, run_log_line, run_summary};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::devices::runs;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs", "list_runs", list_runs)
            .summary("Runs, the newest first, without their inputs and outputs")
            .needs(Permission::ReadData)
            .query(&[
                ("status", "RunStatus"),
                ("kind", "Name"),
                ("execution_id", "ExecutionId"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .returns::<Page<RunSummary>>(200, "One page"),
        Route::get("/v1/runs/{run_id}", "get_run", get_run)
            .summary("One run with its seats, their devices and their previous devices")
            .needs(Permission::ReadData)
            .returns::<RunSummary>(200, "The run")
            .problems(&[404]),
        Route::get("/v1/runs/{run_id}/log", "get_run_log", get_run_log)
            .summary("What happened to a run, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<RunLogLine>>(200, "One page")
            .problems(&[404]),
    ]
}

async fn list_runs(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<RunSummary<RawJson>>>, RequestRefusal> {
    let filter = RunFilter {
        status: params.parse_word("status", SeatStatus::ALL),
        kind: params.parse_param("kind", |text| Name::parse(text)),
        execution: params.parse_param("execution_id", |text| ExecutionId::parse(text)),
    };
    let limit = params.parse_limit(50, 500);
    let after =
        params.parse_cursor(CursorList::Runs, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish_params()?;
    let found = door.stores.run_views.list_runs(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &StoredRun| cursor::encode(CursorList::Runs, last.position);
    Ok(Json(page_of(found, limit, cursor, run_in_list)))
}

async fn get_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let key = runs::parse_run_key(&caller, &id)?;
    let stored = runs::find_run(&door.devices, &key).await?;
    Ok(Json(run_summary(key.run, stored.run, RunDetail::Whole)))
}

async fn get_run_log(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<RunLogLine<RawJson>>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after =
        params.parse_cursor(CursorList::RunLog, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish_params()?;
    let key = runs::parse_run_key(&caller, &id)?;
    runs::find_run(&door.devices, &key).await?;
    let found = door.stores.run_views.run_log(&key, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &RunEntry| cursor::encode(CursorList::RunLog, last.position);
    Ok(Json(page_of(found, limit, cursor, run_log_line)))
}
