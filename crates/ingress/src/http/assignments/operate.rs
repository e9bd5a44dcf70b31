//! Operator actions on assignments: reassign, and request a correction.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::assignment::Input;
use millstream_core::id::{AssignmentId, PersonId};
use millstream_core::permission::Permission;
use millstream_store::item_store::ItemRef;
use serde::Serialize;

use super::acts::{id_of, shown};
use super::views::AssignmentOut;
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::fields::Fields;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::query::Params;

const BODY_BYTES: usize = 16 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/assignments/{assignment_id}/reassign", "reassign_assignment", reassign)
            .summary("Revoke an open assignment, or reassign one that expired or was skipped")
            .needs(Permission::Operate)
            .body("application/json", "AssignmentReassign")
            .body_optional()
            .answer(200, "AssignmentFollowed", "The assignment, and the one that replaces it")
            .problems(&[404, 409]),
        Route::post("/v1/assignments/{assignment_id}/correct", "correct_assignment", correct)
            .summary("Request a correction of a completed assignment: a new one that refers to it")
            .needs(Permission::Operate)
            .body("application/json", "AssignmentCorrect")
            .body_optional()
            .answer(200, "AssignmentFollowed", "The assignment, and the one that corrects it")
            .problems(&[404, 409]),
    ]
}

#[derive(Debug, Serialize)]
struct FollowedOut {
    #[serde(flatten)]
    assignment: AssignmentOut,
    /// The assignment that replaces it; none while the slot is open to any person.
    next: Option<AssignmentOut>,
}

/// Reads the person from the one field of an optional body.
async fn named(door: &Door, request: Request, field: &'static str) -> Result<Option<PersonId>, Problem> {
    let (parts, body) = request.into_parts();
    let allowed = Allowance { bytes: BODY_BYTES, time: door.options.limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    if body.is_empty() {
        return Ok(None);
    }
    Media::of(&parts.headers, &[Media::Json])?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let given = fields.text(field);
    let person = fields.parsed(field, given, |text| PersonId::parse(text));
    fields.finish().map_err(Problem::invalid)?;
    Ok(person)
}

async fn follow(
    door: &Door,
    caller: &Caller,
    id: AssignmentId,
    next: AssignmentId,
    input: Input,
) -> Result<Json<FollowedOut>, Problem> {
    let mut work = door.desk.about(&caller.tenant, id, input).await?;
    let next = work.assignments.remove(&next).map(AssignmentOut::from);
    Ok(Json(FollowedOut { assignment: shown(work, id)?, next }))
}

async fn reassign(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<FollowedOut>, Problem> {
    params.finish()?;
    let assignment = id_of(&id)?;
    let to = named(&door, request, "to").await?;
    let item = door.desk.item(ItemRef::Assignment(caller.tenant.clone(), assignment)).await?;
    let one = item.as_ref().and_then(|item| item.work.assignments.get(&assignment));
    let Some(one) = one else { return Err(Problem::not_found("assignment", assignment)) };
    let (next, by) = (door.desk.fresh(), caller.actor.clone());
    let input = if one.status.is_open() {
        Input::Revoke { assignment, to, next, by }
    } else {
        Input::Reassign { assignment, to, next, by }
    };
    follow(&door, &caller, assignment, next, input).await
}

async fn correct(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<FollowedOut>, Problem> {
    params.finish()?;
    let assignment = id_of(&id)?;
    let person = named(&door, request, "person").await?;
    let (next, by) = (door.desk.fresh(), caller.actor.clone());
    follow(&door, &caller, assignment, next, Input::Correct { assignment, person, next, by }).await
}
