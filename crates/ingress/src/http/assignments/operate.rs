//! Operator actions on assignments: reassign, and request a correction.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::work_assignments::{AssignmentCorrect, AssignmentReassign, FollowedAssignment};
use millstream_model::id::{AssignmentId, PersonId};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::ItemInput;
use millstream_store::item_store::ItemRef;

use super::acts::{parse_assignment_id, view_assignment};
use super::views::assignment_view;
use crate::auth::TenantCaller;
use crate::http::body::{MediaType, read_body};
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 16 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/assignments/{assignment_id}/reassign", "reassign_assignment", reassign_assignment)
            .summary("Revoke an open assignment, or reassign one that expired or was skipped")
            .needs(Permission::Operate)
            .accepts::<AssignmentReassign>()
            .body_optional()
            .returns::<FollowedAssignment>(200, "The assignment, and the one that replaces it")
            .problems(&[404, 409]),
        Route::post("/v1/assignments/{assignment_id}/correct", "correct_assignment", correct_assignment)
            .summary("Request a correction of a completed assignment: a new one that refers to it")
            .needs(Permission::Operate)
            .accepts::<AssignmentCorrect>()
            .body_optional()
            .returns::<FollowedAssignment>(200, "The assignment, and the one that corrects it")
            .problems(&[404, 409]),
    ]
}

/// Reads the person from the one field of an optional body.
async fn read_person_field(
    door: &IngressState,
    request: Request,
    field: &'static str,
) -> Result<Option<PersonId>, RequestRefusal> {
    let (parts, body) = request.into_parts();
    let body = read_body(door, &parts, body, BODY_BYTES).await?;
    if body.is_empty() {
        return Ok(None);
    }
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let given = fields.take_text(field);
    let person = fields.parse_text(field, given, |text| PersonId::parse(text));
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    Ok(person)
}

async fn apply_operator_input(
    door: &IngressState,
    caller: &TenantCaller,
    id: AssignmentId,
    next: AssignmentId,
    input: ItemInput,
) -> Result<Json<FollowedAssignment<RawJson>>, RequestRefusal> {
    let mut work = door.desk.apply_to_assignment(&caller.tenant, id, input).await?;
    let next = work.assignments.remove(&next).map(assignment_view);
    Ok(Json(FollowedAssignment { assignment: view_assignment(work, id)?, next }))
}

async fn reassign_assignment(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<FollowedAssignment<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let assignment = parse_assignment_id(&id)?;
    let to = read_person_field(&door, request, "to").await?;
    let item = door.desk.load_item(ItemRef::Assignment(caller.tenant.clone(), assignment)).await?;
    let one = item.as_ref().and_then(|item| item.work.assignments.get(&assignment));
    let Some(one) = one else { return Err(RequestRefusal::not_found("assignment", assignment)) };
    let (next, by) = (door.desk.new_assignment_id(), caller.actor.clone());
    let input = if one.status.is_open() {
        ItemInput::Revoke { assignment, to, next, by }
    } else {
        ItemInput::Reassign { assignment, to, next, by }
    };
    apply_operator_input(&door, &caller, assignment, next, input).await
}

async fn correct_assignment(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<FollowedAssignment<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let assignment = parse_assignment_id(&id)?;
    let person = read_person_field(&door, request, "person").await?;
    let (next, by) = (door.desk.new_assignment_id(), caller.actor.clone());
    apply_operator_input(
        &door,
        &caller,
        assignment,
        next,
        ItemInput::Correct { assignment, person, next, by },
    )
    .await
}
