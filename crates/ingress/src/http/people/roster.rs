//! The roster of people: their skills, and whether they get assignments.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::page::Page;
use millstream_api::people::{NewPerson, PersonView};
use millstream_model::id::PersonId;
use millstream_model::permission::Permission;
use millstream_model::quota::CountedQuota;
use millstream_people::assignment::QueueState;
use millstream_people::assignment::select::PersonProfile;

use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::http::queues::configure::work_state;
use crate::http::queues::item_fields::read_skills;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 64 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/people/{person}", "put_person", put_person)
            .summary("Set the skills of a person")
            .needs(Permission::ManageDefinitions)
            .accepts::<NewPerson>()
            .returns::<PersonView>(200, "The person")
            .problems(&[404])
            .leads_to("get_person", &["person"]),
        Route::get("/v1/people", "list_people", list_people)
            .summary("People in the order of their ids")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<PersonView>>(200, "One page"),
        Route::get("/v1/people/{person}", "get_person", get_person)
            .summary("One person and their skills")
            .needs(Permission::ReadData)
            .returns::<PersonView>(200, "The person")
            .problems(&[404]),
        Route::post("/v1/people/{person}/pause", "pause_person", pause_person)
            .summary("Pause a person: no new assignments, open ones stay")
            .needs(Permission::Operate)
            .returns::<PersonView>(200, "Paused")
            .problems(&[404]),
        Route::post("/v1/people/{person}/resume", "resume_person", resume_person)
            .summary("Resume a person: they get assignments again")
            .needs(Permission::Operate)
            .returns::<PersonView>(200, "Resumed")
            .problems(&[404]),
    ]
}

fn person_view(PersonProfile { person, skills, state }: PersonProfile) -> PersonView {
    PersonView {
        person: person.to_string(),
        skills: skills.iter().map(ToString::to_string).collect(),
        state: work_state(state),
    }
}

fn parse_person_id(text: &str) -> Result<PersonId, RequestRefusal> {
    PersonId::parse(text).map_err(|_| RequestRefusal::not_found("person", text))
}

async fn find_profile(
    door: &IngressState,
    caller: &TenantCaller,
    person: &PersonId,
) -> Result<Option<PersonProfile>, RequestRefusal> {
    let found = door.stores.people.find_people(&[(caller.tenant.clone(), person.clone())]).await?;
    Ok(found.into_iter().flatten().next())
}

/// Changes a profile. An unknown person is added: assignments do not require a known person.
async fn change_profile(
    door: &IngressState,
    caller: &TenantCaller,
    id: &str,
    change: impl FnOnce(&mut PersonProfile),
) -> Result<Json<PersonView>, RequestRefusal> {
    let person = parse_person_id(id)?;
    let mut profile = match find_profile(door, caller, &person).await? {
        Some(profile) => profile,
        None => {
            door.quotas.admit_rows(&caller.tenant, CountedQuota::People, 1).await?;
            PersonProfile::unknown(person)
        }
    };
    change(&mut profile);
    let people = std::slice::from_ref(&profile);
    door.stores.people.put_people(&caller.tenant, people, door.clock.now()).await?;
    Ok(Json(person_view(profile)))
}

async fn put_person(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<PersonView>, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let skills = read_skills(&mut fields);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    change_profile(&door, &caller, &id, |profile| profile.skills = skills).await
}

async fn list_people(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<PersonView>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after = params.parse_cursor(CursorList::People, |text| PersonId::parse(text).ok());
    params.finish_params()?;
    let found = door.stores.people.list_people(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &PersonProfile| cursor::encode(CursorList::People, &last.person);
    Ok(Json(page_of(found, limit, cursor, person_view)))
}

async fn get_person(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<PersonView>, RequestRefusal> {
    params.finish_params()?;
    let person = parse_person_id(&id)?;
    let found = find_profile(&door, &caller, &person).await?;
    let found = found.ok_or_else(|| RequestRefusal::not_found("person", &person))?;
    Ok(Json(person_view(found)))
}

async fn pause_person(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<PersonView>, RequestRefusal> {
    params.finish_params()?;
    change_profile(&door, &caller, &id, |profile| profile.state = QueueState::Paused).await
}

async fn resume_person(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<PersonView>, RequestRefusal> {
    params.finish_params()?;
    change_profile(&door, &caller, &id, |profile| profile.state = QueueState::Active).await
}
