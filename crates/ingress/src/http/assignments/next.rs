//! `POST /v1/assignments/next`: selects the next assignment of a person.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use millstream_core::assignment::next::Idle;
use millstream_core::id::{Name, PersonId};
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_store::assignments::{Given, GivenWork};
use serde::Serialize;

use super::views::AssignmentOut;
use crate::auth::Caller;
use crate::door::Door;
use crate::fields::Fields;
use crate::http::items::views::ItemOut;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::tasks::read;
use crate::people::giving::{self, Wanted};
use crate::query::Params;

const BODY_BYTES: usize = 64 * 1024;
/// Maximum number of queues that a request may name.
const QUEUES: usize = 100;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/assignments/next", "next_assignment", next)
            .summary("Get the next assignment of a person; one that is assigned and not started comes first")
            .needs(Permission::WorkAsPerson)
            .body("application/json", "NextWanted")
            .answer(200, "NextGiven", "The assignment, or the reason why there is none"),
    ]
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum GivenOut {
    Assigned(Box<AssignedOut>),
    Nothing { assignment: (), idle: Idle },
}

#[derive(Debug, Serialize)]
struct AssignedOut {
    assignment: AssignmentOut,
    item: ItemOut,
    payload: RawJson,
    again: bool,
}

impl From<Given> for GivenOut {
    fn from(given: Given) -> Self {
        match given {
            Given::Assigned(work) => {
                let GivenWork { assignment, item, payload, again } = *work;
                let (assignment, item) = (assignment.into(), item.into());
                Self::Assigned(Box::new(AssignedOut { assignment, item, payload, again }))
            }
            Given::Nothing(idle) => Self::Nothing { assignment: (), idle },
        }
    }
}

async fn next(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Json<GivenOut>, Problem> {
    params.finish()?;
    let body = read(&door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let person = person(&mut fields);
    let queues = queues(&mut fields);
    let start = flag(&mut fields, "start");
    fields.finish().map_err(Problem::invalid)?;
    // Unreachable: a missing person is a fault, which `finish` reports.
    let Some(person) = person else { return Err(Problem::bad_request("person is missing")) };
    caller.require_person(&person)?;
    let wanted = Wanted { person, queues, start };
    Ok(Json(giving::next(&door, &caller.tenant, &wanted).await?.into()))
}

pub(super) fn person(fields: &mut Fields<'_>) -> Option<PersonId> {
    let given = fields.required("person");
    fields.parsed("person", given, |text| PersonId::parse(text))
}

fn queues(fields: &mut Fields<'_>) -> BTreeSet<Name> {
    let Some(text) = fields.take("queues") else { return BTreeSet::new() };
    match serde_json::from_str::<BTreeSet<Name>>(text) {
        Ok(queues) if queues.is_empty() => fields.fault("queues", "is empty; leave it out to ask for any"),
        Ok(queues) if queues.len() <= QUEUES => return queues,
        Ok(_) => fields.fault("queues", format!("are more than {QUEUES}")),
        Err(error) => fields.fault("queues", format!("must be a list of names: {error}")),
    }
    BTreeSet::new()
}

fn flag(fields: &mut Fields<'_>, field: &'static str) -> bool {
    match fields.take(field) {
        Some("true") => true,
        Some("false") | None => false,
        Some(_) => {
            fields.fault(field, "must be true or false");
            false
        }
    }
}
