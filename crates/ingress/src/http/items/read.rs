//! Reads items: one with its assignments, a list, and the log of an item.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::assignment::{ItemStatus, LogEntry};
use millstream_core::id::{ItemId, ItemKey, Name};
use millstream_core::permission::Permission;
use millstream_store::assignments::{ItemFilter, ItemView};
use millstream_store::item_store::{ItemRef, LoadedItem};

use super::views::{ItemOut, WholeItem};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/items", "list_items", list)
            .summary("Items, the newest first")
            .needs(Permission::ReadData)
            .query(&[("queue", "Name"), ("status", "ItemStatus"), ("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "ItemPage", "One page"),
        Route::get("/v1/items/{item_id}", "get_item", get)
            .summary("One item, its payload and its assignments")
            .needs(Permission::ReadData)
            .answer(200, "WholeItem", "The item")
            .problems(&[404]),
        Route::get("/v1/items/{item_id}/log", "get_item_log", log)
            .summary("What happened to an item, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "ItemLogPage", "One page")
            .problems(&[404]),
    ]
}

/// Parses the item key of a path; an item of another tenant is answered with 404.
pub(super) fn key_of(caller: &Caller, text: &str) -> Result<ItemKey, Problem> {
    let item = ItemId::parse(text).map_err(|_| Problem::not_found("item", text))?;
    Ok(ItemKey { tenant: caller.tenant.clone(), item })
}

async fn find(door: &Door, key: &ItemKey) -> Result<LoadedItem, Problem> {
    let found = door.desk.item(ItemRef::Item(key.clone())).await?;
    found.ok_or_else(|| Problem::not_found("item", &key.item))
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<ItemOut>>, Problem> {
    let filter = ItemFilter {
        queue: params.parsed("queue", |text| Name::parse(text)),
        status: params.word("status", ItemStatus::ALL),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Items, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish()?;
    let found = door.stores.assignment_views.list_items(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &ItemView| cursor::encode(List::Items, last.position);
    Ok(Json(Page::of(found, limit, cursor, |view| ItemOut::from(view.item))))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<WholeItem>, Problem> {
    params.finish()?;
    let key = key_of(&caller, &id)?;
    Ok(Json(find(&door, &key).await?.work.into()))
}

async fn log(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<LogEntry>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::ItemLog, |text| text.parse().ok());
    params.finish()?;
    let key = key_of(&caller, &id)?;
    find(&door, &key).await?;
    let found = door.stores.assignment_views.item_log(&key, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &LogEntry| cursor::encode(List::ItemLog, last.no);
    Ok(Json(Page::of(found, limit, cursor, |entry| entry)))
}
