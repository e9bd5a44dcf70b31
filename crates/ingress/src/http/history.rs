//! What happened to an execution, what is running for it, and what it waits for.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::id::{ExecutionKey, Seq};
use millstream_core::status::Role;
use millstream_store::views::HistoryEntry;

use super::posting;
use super::problem::Problem;
use super::route::Route;
use super::views::{ActionOut, Page, TimerOut, TransitionOut};
use crate::auth::Reader;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}/history", "get_history", history)
            .summary("Applied transitions, in order; the first is millstream.start")
            .needs(Role::Read)
            .query(&["limit", "cursor"])
            .answer(200, "TransitionPage", "One page")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/actions", "get_actions", actions)
            .summary("Actions of the execution: running, waiting, failed, settled")
            .needs(Role::Read)
            .answer(200, "ActionPage", "All of them")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/timers", "get_timers", timers)
            .summary("Timers that are armed")
            .needs(Role::Read)
            .answer(200, "TimerPage", "All of them")
            .problems(&[404]),
    ]
}

async fn history(
    State(door): State<Arc<Door>>,
    Reader(caller): Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<TransitionOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::History, |text| text.parse().ok().map(Seq));
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let after = after.unwrap_or(Seq(0));
    let found = door.stores.execution_views.history(&execution, after, limit + 1).await?;
    let cursor = |last: &HistoryEntry| cursor::encode(List::History, last.transition.seq);
    Ok(Json(Page::of(found, limit, cursor, TransitionOut::from)))
}

async fn actions(
    State(door): State<Arc<Door>>,
    Reader(caller): Reader,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Page<ActionOut>>, Problem> {
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let found = door.stores.execution_views.actions(&execution).await?;
    Ok(Json(Page { items: found.into_iter().map(ActionOut::from).collect(), next_cursor: None }))
}

async fn timers(
    State(door): State<Arc<Door>>,
    Reader(caller): Reader,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Page<TimerOut>>, Problem> {
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let found = door.stores.execution_views.timers(&execution).await?;
    Ok(Json(Page { items: found.into_iter().map(TimerOut::from).collect(), next_cursor: None }))
}

/// The execution itself, asked of the store: an empty list and an execution that is not there differ.
async fn existing(door: &Door, execution: ExecutionKey) -> Result<ExecutionKey, Problem> {
    let found = door.stores.events.targets(std::slice::from_ref(&execution)).await?;
    match found.into_iter().next().flatten() {
        Some(_) => Ok(execution),
        None => Err(Problem::not_found("execution", &execution.execution)),
    }
}
