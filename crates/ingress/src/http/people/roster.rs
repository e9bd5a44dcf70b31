//! The roster of people: their skills, and whether they get assignments.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::assignment::QueueState;
use millstream_core::assignment::next::Profile;
use millstream_core::id::{Name, PersonId};
use millstream_core::permission::Permission;
use millstream_core::quota::CountedQuota;
use serde::Serialize;

use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::fields::Fields;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::tasks::read;
use crate::http::views::Page;
use crate::people::importing::skills;
use crate::query::Params;

const BODY_BYTES: usize = 64 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/people/{person}", "put_person", put)
            .summary("Set the skills of a person")
            .needs(Permission::ManageDefinitions)
            .body("application/json", "NewPerson")
            .answer(200, "Person", "The person")
            .problems(&[404])
            .leads_to("get_person", &["person"]),
        Route::get("/v1/people", "list_people", list)
            .summary("People in the order of their ids")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "PersonPage", "One page"),
        Route::get("/v1/people/{person}", "get_person", get)
            .summary("One person and their skills")
            .needs(Permission::ReadData)
            .answer(200, "Person", "The person")
            .problems(&[404]),
        Route::post("/v1/people/{person}/pause", "pause_person", pause)
            .summary("Pause a person: no new assignments, open ones stay")
            .needs(Permission::Operate)
            .answer(200, "Person", "Paused")
            .problems(&[404]),
        Route::post("/v1/people/{person}/resume", "resume_person", resume)
            .summary("Resume a person: they get assignments again")
            .needs(Permission::Operate)
            .answer(200, "Person", "Resumed")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct PersonOut {
    person: PersonId,
    skills: BTreeSet<Name>,
    state: QueueState,
}

impl From<Profile> for PersonOut {
    fn from(Profile { person, skills, state }: Profile) -> Self {
        Self { person, skills, state }
    }
}

fn id_of(text: &str) -> Result<PersonId, Problem> {
    PersonId::parse(text).map_err(|_| Problem::not_found("person", text))
}

async fn known(door: &Door, caller: &Caller, person: &PersonId) -> Result<Option<Profile>, Problem> {
    let found = door.stores.people.people(&[(caller.tenant.clone(), person.clone())]).await?;
    Ok(found.into_iter().flatten().next())
}

/// Changes a profile. An unknown person is added: assignments do not require a known person.
async fn change(
    door: &Door,
    caller: &Caller,
    id: &str,
    change: impl FnOnce(&mut Profile),
) -> Result<Json<PersonOut>, Problem> {
    let person = id_of(id)?;
    let mut profile = match known(door, caller, &person).await? {
        Some(profile) => profile,
        None => {
            door.quotas.admit_rows(&caller.tenant, CountedQuota::People, 1).await?;
            Profile::unknown(person)
        }
    };
    change(&mut profile);
    let people = std::slice::from_ref(&profile);
    door.stores.people.put_people(&caller.tenant, people, door.clock.now()).await?;
    Ok(Json(profile.into()))
}

async fn put(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<PersonOut>, Problem> {
    params.finish()?;
    let body = read(&door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let skills = skills(&mut fields);
    fields.finish().map_err(Problem::invalid)?;
    change(&door, &caller, &id, |profile| profile.skills = skills).await
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<PersonOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::People, |text| PersonId::parse(text).ok());
    params.finish()?;
    let found = door.stores.people.list_people(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &Profile| cursor::encode(List::People, &last.person);
    Ok(Json(Page::of(found, limit, cursor, PersonOut::from)))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<PersonOut>, Problem> {
    params.finish()?;
    let person = id_of(&id)?;
    let found = known(&door, &caller, &person).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("person", &person))?.into()))
}

async fn pause(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<PersonOut>, Problem> {
    params.finish()?;
    change(&door, &caller, &id, |profile| profile.state = QueueState::Paused).await
}

async fn resume(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<PersonOut>, Problem> {
    params.finish()?;
    change(&door, &caller, &id, |profile| profile.state = QueueState::Active).await
}
