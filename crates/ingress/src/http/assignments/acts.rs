//! Acts of a person on an assignment: start, submit, skip, heartbeat.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::assignment::input::InputKind;
use millstream_core::assignment::limits::MAX_ANSWER_BYTES;
use millstream_core::assignment::{Input, Work};
use millstream_core::id::AssignmentId;
use millstream_core::permission::Permission;

use super::next::person;
use super::views::AssignmentOut;
use crate::auth::Caller;
use crate::door::Door;
use crate::fields::Fields;
use crate::http::problem::{Kind, Problem};
use crate::http::route::Route;
use crate::http::tasks::read;
use crate::query::Params;

/// Body limit. Larger than the answer limit, so that a slightly oversized answer is rejected as an invalid
/// answer, with the fault, and not as an oversized body.
const BODY_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// Path, operation id, kind of input, body schema and summary.
type Row = (&'static str, &'static str, InputKind, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "/v1/assignments/{assignment_id}/start",
        "start_assignment",
        InputKind::Start,
        "AssignmentAct",
        "Start work; the time limit for the answer begins",
    ),
    (
        "/v1/assignments/{assignment_id}/submit",
        "submit_assignment",
        InputKind::Submit,
        "AssignmentSubmit",
        "Submit the answer; an invalid answer leaves the assignment in progress",
    ),
    (
        "/v1/assignments/{assignment_id}/skip",
        "skip_assignment",
        InputKind::Skip,
        "AssignmentSkip",
        "Skip the assignment; the person is not given this item again",
    ),
    (
        "/v1/assignments/{assignment_id}/heartbeat",
        "heartbeat_assignment",
        InputKind::Heartbeat,
        "AssignmentAct",
        "Extend the time limit: the full time again",
    ),
];

pub(in crate::http) fn routes() -> Vec<Route> {
    let route = |(path, id, kind, body, summary): &Row| {
        let kind = *kind;
        let handler = move |State(door): State<Arc<Door>>,
                            caller: Caller,
                            Path(id): Path<String>,
                            params: Params,
                            request: Request| async move {
            params.finish()?;
            act(&door, &caller, &id, kind, request).await
        };
        Route::post(path, id, handler)
            .summary(summary)
            .needs(Permission::WorkAsPerson)
            .body("application/json", body)
            .answer(200, "GivenAssignment", "The assignment; a repeat gets the same answer")
            .problems(&[404, 409])
    };
    ROWS.iter().map(route).collect()
}

pub(super) fn id_of(text: &str) -> Result<AssignmentId, Problem> {
    let id = uuid::Uuid::parse_str(text).map_err(|_| Problem::not_found("assignment", text))?;
    Ok(AssignmentId(id))
}

pub(super) fn shown(mut work: Work, id: AssignmentId) -> Result<AssignmentOut, Problem> {
    let one = work.assignments.remove(&id);
    Ok(one.ok_or_else(|| Problem::new(Kind::Internal, "the assignment is not among its item's"))?.into())
}

async fn act(
    door: &Door,
    caller: &Caller,
    id: &str,
    kind: InputKind,
    request: Request,
) -> Result<Json<AssignmentOut>, Problem> {
    let assignment = id_of(id)?;
    let body = read(door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let person = person(&mut fields);
    let answer = if kind == InputKind::Submit { fields.raw_or_null("answer") } else { None };
    if kind == InputKind::Submit && answer.is_none() && !fields.has_fault("answer") {
        fields.fault("answer", "is required");
    }
    let reason = if kind == InputKind::Skip { fields.text("reason") } else { None };
    fields.finish().map_err(Problem::invalid)?;
    // Unreachable: a missing person is a fault, which `finish` reports.
    let Some(person) = person else { return Err(Problem::bad_request("person is missing")) };
    caller.require_person(&person)?;
    let input = match (kind, answer) {
        (InputKind::Start, _) => Input::Start { assignment, person },
        (InputKind::Submit, Some(answer)) => Input::Submit { assignment, person, answer },
        (InputKind::Skip, _) => Input::Skip { assignment, person, reason: reason.map(String::from) },
        (InputKind::Heartbeat, _) => Input::Heartbeat { assignment, person },
        (_, _) => return Err(Problem::bad_request("answer is missing")),
    };
    let work = door.desk.about(&caller.tenant, assignment, input).await?;
    Ok(Json(shown(work, assignment)?))
}
