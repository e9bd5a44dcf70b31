//! Acts of a person on an assignment: start, submit, skip, heartbeat.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::work_assignments::{
    AnswerSubmission, AssignmentActRequest, AssignmentSkip, WorkAssignment,
};
use millstream_model::id::AssignmentId;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::input::ItemInputKind;
use millstream_people::assignment::limits::MAX_ANSWER_BYTES;
use millstream_people::assignment::{ItemAggregate, ItemInput};

use super::next::required_person;
use super::views::assignment_view;
use crate::auth::TenantCaller;
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

/// Body limit. Larger than the answer limit, so that a slightly oversized answer is rejected as an invalid
/// answer, with the fault, and not as an oversized body.
const BODY_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// Path, operation id, kind of input, its body, and summary.
type AssignmentActRoute = (&'static str, &'static str, ItemInputKind, fn(Route) -> Route, &'static str);

const ROWS: &[AssignmentActRoute] = &[
    (
        "/v1/assignments/{assignment_id}/start",
        "start_assignment",
        ItemInputKind::Start,
        Route::accepts::<AssignmentActRequest>,
        "Start work; the time limit for the answer begins",
    ),
    (
        "/v1/assignments/{assignment_id}/submit",
        "submit_assignment",
        ItemInputKind::Submit,
        Route::accepts::<AnswerSubmission>,
        "Submit the answer; an invalid answer leaves the assignment in progress",
    ),
    (
        "/v1/assignments/{assignment_id}/skip",
        "skip_assignment",
        ItemInputKind::Skip,
        Route::accepts::<AssignmentSkip>,
        "Skip the assignment; the person is not given this item again",
    ),
    (
        "/v1/assignments/{assignment_id}/heartbeat",
        "heartbeat_assignment",
        ItemInputKind::Heartbeat,
        Route::accepts::<AssignmentActRequest>,
        "Extend the time limit: the full time again",
    ),
];

pub(in crate::http) fn routes() -> Vec<Route> {
    let route = |(path, id, kind, with_body, summary): &AssignmentActRoute| {
        let kind = *kind;
        let handler = move |State(door): State<Arc<IngressState>>,
                            caller: TenantCaller,
                            Path(id): Path<String>,
                            params: QueryParams,
                            request: Request| async move {
            params.finish_params()?;
            act_on_assignment(&door, &caller, &id, kind, request).await
        };
        let route = Route::post(path, id, handler).summary(summary).needs(Permission::WorkAsPerson);
        with_body(route)
            .returns::<WorkAssignment>(200, "The assignment; a repeat gets the same answer")
            .problems(&[404, 409])
    };
    ROWS.iter().map(route).collect()
}

pub(super) fn parse_assignment_id(text: &str) -> Result<AssignmentId, RequestRefusal> {
    let id = uuid::Uuid::parse_str(text).map_err(|_| RequestRefusal::not_found("assignment", text))?;
    Ok(AssignmentId(id))
}

pub(super) fn view_assignment(
    mut work: ItemAggregate,
    id: AssignmentId,
) -> Result<WorkAssignment<RawJson>, RequestRefusal> {
    let one = work.assignments.remove(&id);
    let one = one.ok_or_else(|| {
        RequestRefusal::new(RefusalKind::Internal, "the assignment is not among its item's")
    })?;
    Ok(assignment_view(one))
}

async fn act_on_assignment(
    door: &IngressState,
    caller: &TenantCaller,
    id: &str,
    kind: ItemInputKind,
    request: Request,
) -> Result<Json<WorkAssignment<RawJson>>, RequestRefusal> {
    let assignment = parse_assignment_id(id)?;
    let body = read_json_body(door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let person = required_person(&mut fields);
    let answer = if kind == ItemInputKind::Submit { fields.raw_json_or_null("answer") } else { None };
    if kind == ItemInputKind::Submit && answer.is_none() && !fields.has_fault("answer") {
        fields.add_fault("answer", "is required");
    }
    let reason = if kind == ItemInputKind::Skip { fields.take_text("reason") } else { None };
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    // Unreachable: a missing person is a fault, which `finish` reports.
    let Some(person) = person else { return Err(RequestRefusal::bad_request("person is missing")) };
    caller.require_person(&person)?;
    let input = match (kind, answer) {
        (ItemInputKind::Start, _) => ItemInput::Start { assignment, person },
        (ItemInputKind::Submit, Some(answer)) => ItemInput::Submit { assignment, person, answer },
        (ItemInputKind::Skip, _) => ItemInput::Skip { assignment, person, reason: reason.map(String::from) },
        (ItemInputKind::Heartbeat, _) => ItemInput::Heartbeat { assignment, person },
        (_, _) => return Err(RequestRefusal::bad_request("answer is missing")),
    };
    let work = door.desk.apply_to_assignment(&caller.tenant, assignment, input).await?;
    Ok(Json(view_assignment(work, assignment)?))
}
