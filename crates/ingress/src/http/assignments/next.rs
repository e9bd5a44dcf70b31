//! `POST /v1/assignments/next`: selects the next assignment of a person.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use millstream_api::next_work::{
    NextWorkAnswer, NextWorkRequest, NoWorkForPerson, WorkForPerson, WorkIdleReason,
};
use millstream_model::id::{Name, PersonId};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::select::PersonIdleReason;
use millstream_store::assignments::{AssignedWork, NextAssignment};

use super::views::assignment_view;
use crate::auth::TenantCaller;
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::items::views::item_view;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::people::next_work::{self, WorkRequest};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 64 * 1024;
/// Maximum number of queues that a request may name.
const QUEUES: usize = 100;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/assignments/next", "next_assignment", next_assignment)
            .summary("Get the next assignment of a person; one that is assigned and not started comes first")
            .needs(Permission::WorkAsPerson)
            .accepts::<NextWorkRequest>()
            .returns::<NextWorkAnswer>(200, "The assignment, or the reason why there is none"),
    ]
}

fn next_work_answer(given: NextAssignment) -> NextWorkAnswer<RawJson> {
    match given {
        NextAssignment::Assigned(work) => {
            let AssignedWork { assignment, item, payload, already_assigned } = *work;
            let (assignment, item) = (assignment_view(assignment), item_view(item));
            NextWorkAnswer::Given(Box::new(WorkForPerson { assignment, item, payload, already_assigned }))
        }
        NextAssignment::Nothing(idle) => {
            NextWorkAnswer::Nothing(NoWorkForPerson { assignment: (), idle: idle_reason(idle) })
        }
    }
}

fn idle_reason(reason: PersonIdleReason) -> WorkIdleReason {
    match reason {
        PersonIdleReason::NothingOpen => WorkIdleReason::NothingOpen,
        PersonIdleReason::OpenLimit => WorkIdleReason::OpenLimit,
        PersonIdleReason::TotalLimit => WorkIdleReason::TotalLimit,
        PersonIdleReason::Skills => WorkIdleReason::Skills,
        PersonIdleReason::NotEligible => WorkIdleReason::NotEligible,
        PersonIdleReason::QueuePaused => WorkIdleReason::QueuePaused,
        PersonIdleReason::PersonPaused => WorkIdleReason::PersonPaused,
        PersonIdleReason::NoQueue => WorkIdleReason::NoQueue,
    }
}

async fn next_assignment(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Json<NextWorkAnswer<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let person = required_person(&mut fields);
    let queues = queue_names(&mut fields);
    let start = optional_flag(&mut fields, "start");
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    // Unreachable: a missing person is a fault, which `finish` reports.
    let Some(person) = person else { return Err(RequestRefusal::bad_request("person is missing")) };
    caller.require_person(&person)?;
    let wanted = WorkRequest { person, queues, start };
    Ok(Json(next_work_answer(next_work::give_next_work(&door.desk, &caller.tenant, &wanted).await?)))
}

pub(super) fn required_person(fields: &mut JsonFields<'_>) -> Option<PersonId> {
    let given = fields.required_text("person");
    fields.parse_text("person", given, |text| PersonId::parse(text))
}

fn queue_names(fields: &mut JsonFields<'_>) -> BTreeSet<Name> {
    let Some(text) = fields.take_field("queues") else { return BTreeSet::new() };
    match serde_json::from_str::<BTreeSet<Name>>(text) {
        Ok(queues) if queues.is_empty() => {
            fields.add_fault("queues", "is empty; leave it out to ask for any")
        }
        Ok(queues) if queues.len() <= QUEUES => return queues,
        Ok(_) => fields.add_fault("queues", format!("are more than {QUEUES}")),
        Err(error) => fields.add_fault("queues", format!("must be a list of names: {error}")),
    }
    BTreeSet::new()
}

fn optional_flag(fields: &mut JsonFields<'_>, field: &'static str) -> bool {
    match fields.take_field(field) {
        Some("true") => true,
        Some("false") | None => false,
        Some(_) => {
            fields.add_fault(field, "must be true or false");
            false
        }
    }
}
