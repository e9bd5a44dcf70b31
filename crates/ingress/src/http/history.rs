//! The log of an execution, its current actions and its armed timers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::id::{ExecutionKey, Seq};
use millstream_core::permission::Permission;
use millstream_core::time::Timestamp;
use millstream_store::execution_store::More;
use millstream_store::views::{ActionPlace, ActionView, TimerPlace, TimerView};

use super::posting;
use super::problem::Problem;
use super::route::Route;
use super::views::{ActionOut, Page, TimerOut, TransitionOut};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}/history", "get_history", history)
            .summary("Applied transitions, in order; the first is millstream.start")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "TransitionPage", "One page")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/actions", "get_actions", actions)
            .summary("Actions of the execution: running, waiting, failed, settled")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "ActionPage", "One page, by seq and position in the do list")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/timers", "get_timers", timers)
            .summary("Armed timers")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "TimerPage", "One page, the earliest first")
            .problems(&[404]),
    ]
}

async fn history(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<TransitionOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::History, |text| text.parse().ok().map(Seq));
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let after = after.unwrap_or(Seq(0));
    let page = door.stores.execution_views.history(&execution, after, limit).await?;
    // A page may end before its limit: pages with large payloads are shorter.
    let next_cursor = match page.more {
        More::Nothing => None,
        More::Remains => page.entries.last().map(|last| cursor::encode(List::History, last.transition.seq)),
    };
    Ok(Json(Page { items: page.entries.into_iter().map(TransitionOut::from).collect(), next_cursor }))
}

async fn actions(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<ActionOut>>, Problem> {
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Actions, |text| {
        let (seq, ordinal) = text.split_once('.')?;
        Some(ActionPlace { seq: Seq(seq.parse().ok()?), ordinal: ordinal.parse().ok()? })
    });
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let found = door.stores.execution_views.actions(&execution, after, limit + 1).await?;
    let cursor = |last: &ActionView| {
        let place = last.place();
        cursor::encode(List::Actions, format_args!("{}.{}", place.seq, place.ordinal))
    };
    Ok(Json(Page::of(found, limit, cursor, ActionOut::from)))
}

async fn timers(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<TimerOut>>, Problem> {
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Timers, |text| {
        let (fire_at, place) = text.split_once('.')?;
        let (armed_seq, ordinal) = place.split_once('.')?;
        Some(TimerPlace {
            fire_at: Timestamp::from_millis(fire_at.parse().ok()?),
            armed_seq: Seq(armed_seq.parse().ok()?),
            ordinal: ordinal.parse().ok()?,
        })
    });
    params.finish()?;
    let execution = existing(&door, posting::execution_of(&caller, &id)?).await?;
    let found = door.stores.execution_views.timers(&execution, after, limit + 1).await?;
    let cursor = |last: &TimerView| {
        let TimerPlace { fire_at, armed_seq, ordinal } = last.place();
        cursor::encode(List::Timers, format_args!("{}.{armed_seq}.{ordinal}", fire_at.as_millis()))
    };
    Ok(Json(Page::of(found, limit, cursor, TimerOut::from)))
}

/// Checks that the execution exists, to tell an empty list from an unknown execution.
async fn existing(door: &Door, execution: ExecutionKey) -> Result<ExecutionKey, Problem> {
    let found = door.stores.events.targets(std::slice::from_ref(&execution)).await?;
    match found.into_iter().next().flatten() {
        Some(_) => Ok(execution),
        None => Err(Problem::not_found("execution", &execution.execution)),
    }
}
