//! The log of an execution, its current actions and its armed timers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::actions::ActionView;
use millstream_api::history::{ExecutionTransition, Timer};
use millstream_api::page::Page;
use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::PageRemainder;
use millstream_store::views::{ActionPlace, ActionRecord, TimerPlace, TimerView};

use super::route::Route;
use super::views::{self, page_of};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::submit::event_draft;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}/history", "get_history", list_history)
            .summary("Applied transitions, in order; the first is millstream.start")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<ExecutionTransition>>(200, "One page")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/actions", "get_actions", list_actions)
            .summary("Actions of the execution: running, waiting, failed, settled")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<ActionView>>(200, "One page, by seq and position in the do list")
            .problems(&[404]),
        Route::get("/v1/executions/{execution_id}/timers", "get_timers", list_timers)
            .summary("Armed timers")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<Timer>>(200, "One page, the earliest first")
            .problems(&[404]),
    ]
}

async fn list_history(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<ExecutionTransition<RawJson>>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after = params.parse_cursor(CursorList::History, |text| text.parse().ok().map(Seq));
    params.finish_params()?;
    let execution = existing_execution(&door, event_draft::parse_execution_key(&caller, &id)?).await?;
    let after = after.unwrap_or(Seq(0));
    let page = door.stores.execution_views.read_history(&execution, after, limit).await?;
    // A page may end before its limit: pages with large payloads are shorter.
    let next_cursor = match page.more {
        PageRemainder::Nothing => None,
        PageRemainder::Remains => {
            page.entries.last().map(|last| cursor::encode(CursorList::History, last.transition.seq))
        }
    };
    Ok(Json(Page { items: page.entries.into_iter().map(views::transition).collect(), next_cursor }))
}

async fn list_actions(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<ActionView<RawJson>>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Actions, |text| {
        let (seq, ordinal) = text.split_once('.')?;
        Some(ActionPlace { seq: Seq(seq.parse().ok()?), ordinal: ordinal.parse().ok()? })
    });
    params.finish_params()?;
    let execution = existing_execution(&door, event_draft::parse_execution_key(&caller, &id)?).await?;
    let found = door.stores.execution_views.list_actions(&execution, after, limit + 1).await?;
    let cursor = |last: &ActionRecord| {
        let place = last.place();
        cursor::encode(CursorList::Actions, format_args!("{}.{}", place.seq, place.ordinal))
    };
    Ok(Json(page_of(found, limit, cursor, views::action)))
}

async fn list_timers(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<Timer>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Timers, |text| {
        let (fire_at, place) = text.split_once('.')?;
        let (armed_seq, ordinal) = place.split_once('.')?;
        Some(TimerPlace {
            fire_at: Timestamp::from_millis(fire_at.parse().ok()?),
            armed_seq: Seq(armed_seq.parse().ok()?),
            ordinal: ordinal.parse().ok()?,
        })
    });
    params.finish_params()?;
    let execution = existing_execution(&door, event_draft::parse_execution_key(&caller, &id)?).await?;
    let found = door.stores.execution_views.list_timers(&execution, after, limit + 1).await?;
    let cursor = |last: &TimerView| {
        let TimerPlace { fire_at, armed_seq, ordinal } = last.place();
        cursor::encode(CursorList::Timers, format_args!("{}.{armed_seq}.{ordinal}", fire_at.as_millis()))
    };
    Ok(Json(page_of(found, limit, cursor, views::timer)))
}

/// Checks that the execution exists, to tell an empty list from an unknown execution.
async fn existing_execution(
    door: &IngressState,
    execution: ExecutionKey,
) -> Result<ExecutionKey, RequestRefusal> {
    let found = door.stores.events.find_definitions(std::slice::from_ref(&execution)).await?;
    match found.into_iter().next().flatten() {
        Some(_) => Ok(execution),
        None => Err(RequestRefusal::not_found("execution", &execution.execution)),
    }
}
