//! Reads assignments: one, or a list; the list of one person is their history.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::page::Page;
use millstream_api::work_assignments::WorkAssignment;
use millstream_model::id::{ItemId, Name, PersonId};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::{AssignmentStatus, ItemAssignment};
use millstream_store::assignments::AssignmentFilter;
use millstream_store::item_store::ItemRef;

use super::acts::{parse_assignment_id, view_assignment};
use super::views::assignment_view;
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/assignments", "list_assignments", list_assignments)
            .summary("Assignments, the newest first")
            .needs(Permission::ReadData)
            .query(&[
                ("queue", "Name"),
                ("status", "AssignmentStatus"),
                ("person", "PersonId"),
                ("item", "ItemId"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .returns::<Page<WorkAssignment>>(200, "One page"),
        Route::get("/v1/assignments/{assignment_id}", "get_assignment", get_assignment)
            .summary("One assignment")
            .needs(Permission::ReadData)
            .returns::<WorkAssignment>(200, "The assignment")
            .problems(&[404]),
    ]
}

async fn list_assignments(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<WorkAssignment<RawJson>>>, RequestRefusal> {
    let filter = AssignmentFilter {
        queue: params.parse_param("queue", |text| Name::parse(text)),
        status: params.parse_word("status", AssignmentStatus::ALL),
        person: params.parse_param("person", |text| PersonId::parse(text)),
        item: params.parse_param("item", |text| ItemId::parse(text)),
    };
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Assignments, |text| parse_assignment_id(text).ok());
    params.finish_params()?;
    let views = &door.stores.assignment_views;
    let found = views.list_assignments(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &ItemAssignment| cursor::encode(CursorList::Assignments, last.id);
    Ok(Json(page_of(found, limit, cursor, assignment_view)))
}

async fn get_assignment(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<WorkAssignment<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let id = parse_assignment_id(&id)?;
    let found = door.desk.load_item(ItemRef::Assignment(caller.tenant, id)).await?;
    let loaded = found.ok_or_else(|| RequestRefusal::not_found("assignment", id))?;
    Ok(Json(view_assignment(loaded.work, id)?))
}
