//! What people do with their assignments.

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

/// An answer that is a little too large is refused as an answer, with what is wrong with it.
const BODY_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// Path, name, what it is, body and what it does.
type Row = (&'static str, &'static str, InputKind, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "/v1/assignments/{assignment_id}/start",
        "start_assignment",
        InputKind::Start,
        "AssignmentAct",
        "Begin to work on it: the time to hand it in runs",
    ),
    (
        "/v1/assignments/{assignment_id}/submit",
        "submit_assignment",
        InputKind::Submit,
        "AssignmentSubmit",
        "Hand in the answer; one that is not valid leaves the assignment in progress",
    ),
    (
        "/v1/assignments/{assignment_id}/skip",
        "skip_assignment",
        InputKind::Skip,
        "AssignmentSkip",
        "Leave it to others; it does not come back",
    ),
    (
        "/v1/assignments/{assignment_id}/heartbeat",
        "heartbeat_assignment",
        InputKind::Heartbeat,
        "AssignmentAct",
        "Still at it: the full time again",
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
            .answer(200, "GivenAssignment", "As it is now; done now, or by the same request before")
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
    // Without a person there was a fault.
    let Some(person) = person else { return Err(Problem::bad_request("no person is named")) };
    caller.require_person(&person)?;
    let input = match (kind, answer) {
        (InputKind::Start, _) => Input::Start { assignment, person },
        (InputKind::Submit, Some(answer)) => Input::Submit { assignment, person, answer },
        (InputKind::Skip, _) => Input::Skip { assignment, person, reason: reason.map(String::from) },
        (InputKind::Heartbeat, _) => Input::Heartbeat { assignment, person },
        (_, _) => return Err(Problem::bad_request("there is no answer")),
    };
    let work = door.desk.about(&caller.tenant, assignment, input).await?;
    Ok(Json(shown(work, assignment)?))
}
