//! Executions: read one, now or at an earlier point, and list them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::id::{AcceptNo, ExecutionKey, Name, Seq};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::status::ExecutionStatus;
use millstream_core::time::Timestamp;
use millstream_store::views::{ExecutionFilter, ExecutionView};

use super::past::{self, Point};
use super::posting;
use super::problem::{Kind, Problem};
use super::route::Route;
use super::views::{ExecutionOut, Page};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}", "get_execution", read)
            .summary("One execution, now or at an earlier point (`at_seq`, `at`)")
            .needs(Permission::ReadData)
            .query(&[("at_seq", "Seq"), ("at", "Time")])
            .answer(200, "Execution", "The execution")
            .problems(&[404]),
        Route::get("/v1/executions", "list_executions", list)
            .summary("Executions, newest first")
            .needs(Permission::ReadData)
            .query(&[
                ("definition", "Name"),
                ("state", "Name"),
                ("status", "ExecutionStatus"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .answer(200, "ExecutionPage", "One page"),
    ]
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<ExecutionOut>, Problem> {
    let at_seq = params.parsed("at_seq", |text| {
        text.parse().ok().filter(|seq| *seq >= 1).map(Seq).ok_or("is not a number from 1 on")
    });
    let at = params.parsed("at", Timestamp::parse);
    params.finish()?;
    let point = match (at_seq, at) {
        (None, None) => None,
        (Some(seq), None) => Some(Point::Seq(seq)),
        (None, Some(time)) => Some(Point::Time(time)),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(vec![Fault::new("query.at", "is given together with at_seq")]));
        }
    };
    let execution = posting::execution_of(&caller, &id)?;
    let view = find(&door, &execution).await?;
    let Some(point) = point else { return Ok(Json(view.into())) };
    let state = past::state_at(&*door.stores.execution_views, &execution, point).await?;
    let state = state.ok_or_else(|| {
        let detail = match point {
            Point::Seq(seq) => {
                format!("the execution has no transition {seq}, the last one is {}", view.state.seq)
            }
            Point::Time(time) => format!("the execution did not exist at {time}"),
        };
        Problem::new(Kind::NotFound, detail)
    })?;
    Ok(Json(ExecutionOut::at(view, state)))
}

/// Reads the execution, or answers 404.
pub(super) async fn find(door: &Door, execution: &ExecutionKey) -> Result<ExecutionView, Problem> {
    let found = door.stores.execution_views.executions(std::slice::from_ref(execution)).await?;
    found.into_iter().next().flatten().ok_or_else(|| Problem::not_found("execution", &execution.execution))
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<ExecutionOut>>, Problem> {
    let filter = ExecutionFilter {
        definition: params.parsed("definition", |text| Name::parse(text)),
        state: params.parsed("state", |text| Name::parse(text)),
        status: params.word("status", ExecutionStatus::ALL),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Executions, |text| text.parse().ok().map(AcceptNo));
    params.finish()?;
    let found =
        door.stores.execution_views.list_executions(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &ExecutionView| cursor::encode(List::Executions, last.position.0);
    Ok(Json(Page::of(found, limit, cursor, ExecutionOut::from)))
}
