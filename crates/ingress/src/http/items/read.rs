//! Reads items: one with its assignments, a list, and the log of an item.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::items::{WorkItem, WorkItemDetail, WorkItemLogEntry};
use millstream_api::page::Page;
use millstream_model::id::{ItemId, ItemKey, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::{ItemLogEntry, ItemStatus};
use millstream_store::assignments::{ItemFilter, ItemView};
use millstream_store::item_store::{ItemRef, LoadedItem};

use super::views::{item_detail, item_log_entry, item_view};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/items", "list_items", list_items)
            .summary("Items, the newest first")
            .needs(Permission::ReadData)
            .query(&[("queue", "Name"), ("status", "ItemStatus"), ("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<WorkItem>>(200, "One page"),
        Route::get("/v1/items/{item_id}", "get_item", get_item)
            .summary("One item, its payload and its assignments")
            .needs(Permission::ReadData)
            .returns::<WorkItemDetail>(200, "The item")
            .problems(&[404]),
        Route::get("/v1/items/{item_id}/log", "get_item_log", get_item_log)
            .summary("What happened to an item, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<WorkItemLogEntry>>(200, "One page")
            .problems(&[404]),
    ]
}

/// Parses the item key of a path; an item of another tenant is answered with 404.
pub(super) fn parse_item_key(caller: &TenantCaller, text: &str) -> Result<ItemKey, RequestRefusal> {
    let item = ItemId::parse(text).map_err(|_| RequestRefusal::not_found("item", text))?;
    Ok(ItemKey { tenant: caller.tenant.clone(), item })
}

async fn find_item(door: &IngressState, key: &ItemKey) -> Result<LoadedItem, RequestRefusal> {
    let found = door.desk.load_item(ItemRef::Item(key.clone())).await?;
    found.ok_or_else(|| RequestRefusal::not_found("item", &key.item))
}

async fn list_items(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<WorkItem<RawJson>>>, RequestRefusal> {
    let filter = ItemFilter {
        queue: params.parse_param("queue", |text| Name::parse(text)),
        status: params.parse_word("status", ItemStatus::ALL),
    };
    let limit = params.parse_limit(50, 500);
    let after =
        params.parse_cursor(CursorList::Items, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish_params()?;
    let found = door.stores.assignment_views.list_items(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &ItemView| cursor::encode(CursorList::Items, last.position);
    Ok(Json(page_of(found, limit, cursor, |view| item_view(view.item))))
}

async fn get_item(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<WorkItemDetail<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let key = parse_item_key(&caller, &id)?;
    Ok(Json(item_detail(find_item(&door, &key).await?.work)))
}

async fn get_item_log(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<WorkItemLogEntry>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after = params.parse_cursor(CursorList::ItemLog, |text| text.parse().ok());
    params.finish_params()?;
    let key = parse_item_key(&caller, &id)?;
    find_item(&door, &key).await?;
    let found = door.stores.assignment_views.item_log(&key, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &ItemLogEntry| cursor::encode(CursorList::ItemLog, last.no);
    Ok(Json(page_of(found, limit, cursor, item_log_entry)))
}
