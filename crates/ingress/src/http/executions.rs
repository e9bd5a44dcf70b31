//! Executions: read one, now or at an earlier point, and list them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::executions::Execution;
use millstream_api::page::Page;
use millstream_model::context::ExecutionContext;
use millstream_model::id::{AcceptNo, ExecutionKey, Name, Seq};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::status::ExecutionStatus;
use millstream_model::time::Timestamp;
use millstream_store::views::{ExecutionFilter, ExecutionView};

use super::point_in_time::{self, HistoryPoint};
use super::route::Route;
use super::views::{self, page_of};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::event_draft;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}", "get_execution", get_execution)
            .summary("One execution, now or at an earlier point (`at_seq`, `at`)")
            .needs(Permission::ReadData)
            .query(&[("at_seq", "Seq"), ("at", "Time")])
            .returns::<Execution>(200, "The execution")
            .problems(&[404]),
        Route::get("/v1/executions", "list_executions", list_executions)
            .summary("Executions, newest first")
            .needs(Permission::ReadData)
            .query(&[
                ("definition", "Name"),
                ("state", "Name"),
                ("status", "ExecutionStatus"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .returns::<Page<Execution>>(200, "One page"),
    ]
}

async fn get_execution(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Execution<ExecutionContext>>, RequestRefusal> {
    let at_seq = params.parse_param("at_seq", |text| {
        text.parse().ok().filter(|seq| *seq >= 1).map(Seq).ok_or("is not a number from 1 on")
    });
    let at = params.parse_param("at", Timestamp::parse);
    params.finish_params()?;
    let point = match (at_seq, at) {
        (None, None) => None,
        (Some(seq), None) => Some(HistoryPoint::Seq(seq)),
        (None, Some(time)) => Some(HistoryPoint::Time(time)),
        (Some(_), Some(_)) => {
            return Err(RequestRefusal::invalid(vec![Fault::new(
                "query.at",
                "is given together with at_seq",
            )]));
        }
    };
    let execution = event_draft::parse_execution_key(&caller, &id)?;
    let view = find_execution(&door, &execution).await?;
    let Some(point) = point else { return Ok(Json(views::execution(view))) };
    let state = point_in_time::state_at(&*door.stores.execution_views, &execution, point).await?;
    let state = state.ok_or_else(|| {
        let detail = match point {
            HistoryPoint::Seq(seq) => {
                format!("the execution has no transition {seq}, the last one is {}", view.state.seq)
            }
            HistoryPoint::Time(time) => format!("the execution did not exist at {time}"),
        };
        RequestRefusal::new(RefusalKind::NotFound, detail)
    })?;
    Ok(Json(views::execution_at(view, state)))
}

/// Reads the execution, or answers 404.
pub(super) async fn find_execution(
    door: &IngressState,
    execution: &ExecutionKey,
) -> Result<ExecutionView, RequestRefusal> {
    let found = door.stores.execution_views.find_executions(std::slice::from_ref(execution)).await?;
    found
        .into_iter()
        .next()
        .flatten()
        .ok_or_else(|| RequestRefusal::not_found("execution", &execution.execution))
}

async fn list_executions(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<Execution<ExecutionContext>>>, RequestRefusal> {
    let filter = ExecutionFilter {
        definition: params.parse_param("definition", |text| Name::parse(text)),
        state: params.parse_param("state", |text| Name::parse(text)),
        status: params.parse_word("status", ExecutionStatus::ALL),
    };
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Executions, |text| text.parse().ok().map(AcceptNo));
    params.finish_params()?;
    let found =
        door.stores.execution_views.list_executions(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &ExecutionView| cursor::encode(CursorList::Executions, last.position.0);
    Ok(Json(page_of(found, limit, cursor, views::execution)))
}
