//! Reads assignments: one, or a list; the list of one person is their history.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::assignment::{Assignment, AssignmentStatus};
use millstream_core::id::{ItemId, Name, PersonId};
use millstream_core::permission::Permission;
use millstream_store::assignments::AssignmentFilter;
use millstream_store::item_store::ItemRef;

use super::acts::{id_of, shown};
use super::views::AssignmentOut;
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/assignments", "list_assignments", list)
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
            .answer(200, "AssignmentPage", "One page"),
        Route::get("/v1/assignments/{assignment_id}", "get_assignment", get)
            .summary("One assignment")
            .needs(Permission::ReadData)
            .answer(200, "GivenAssignment", "The assignment")
            .problems(&[404]),
    ]
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<AssignmentOut>>, Problem> {
    let filter = AssignmentFilter {
        queue: params.parsed("queue", |text| Name::parse(text)),
        status: params.word("status", AssignmentStatus::ALL),
        person: params.parsed("person", |text| PersonId::parse(text)),
        item: params.parsed("item", |text| ItemId::parse(text)),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Assignments, |text| id_of(text).ok());
    params.finish()?;
    let views = &door.stores.assignment_views;
    let found = views.list_assignments(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &Assignment| cursor::encode(List::Assignments, last.id);
    Ok(Json(Page::of(found, limit, cursor, AssignmentOut::from)))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<AssignmentOut>, Problem> {
    params.finish()?;
    let id = id_of(&id)?;
    let found = door.desk.item(ItemRef::Assignment(caller.tenant, id)).await?;
    let loaded = found.ok_or_else(|| Problem::not_found("assignment", id))?;
    Ok(Json(shown(loaded.work, id)?))
}
