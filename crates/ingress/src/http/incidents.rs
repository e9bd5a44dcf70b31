//! Incidents: failures that need a decision by a person, listed singly and by group.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::action::ErrorClass;
use millstream_core::id::{EventId, ExecutionId, IncidentId, Name, Seq};
use millstream_core::incident::is_fingerprint;
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, Resolution};
use millstream_core::time::Timestamp;
use millstream_store::incidents::{IncidentFilter, IncidentGroup, IncidentStatus, IncidentView};
use millstream_store::views::ActionView;
use serde::Serialize;

use super::problem::Problem;
use super::route::Route;
use super::views::Page;
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/incidents", "list_incidents", list)
            .summary("Incidents, newest first")
            .needs(Permission::ReadData)
            .query(&[
                ("status", "IncidentStatus"),
                ("fingerprint", "Fingerprint"),
                ("execution_id", "ExecutionId"),
                ("definition", "Name"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .answer(200, "IncidentPage", "One page"),
        Route::get("/v1/incidents/groups", "list_incident_groups", groups)
            .summary("Open incidents grouped by fingerprint, the largest groups first")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit")])
            .answer(200, "IncidentGroups", "The largest groups; there are no further pages"),
        Route::get("/v1/incidents/{incident_id}", "get_incident", read)
            .summary("One incident, with its editable input and its attempts")
            .needs(Permission::ReadData)
            .answer(200, "IncidentDetail", "The incident")
            .problems(&[404])
            .leads_to("get_execution", &["execution_id"])
            .leads_to("get_event", &["event_id"])
            .leads_to("retry_incident", &["incident_id"])
            .leads_to("retry_incident_group", &["fingerprint"]),
    ]
}

#[derive(Debug, Serialize)]
struct IncidentOut {
    incident_id: IncidentId,
    status: &'static str,
    execution_id: ExecutionId,
    definition: Name,
    version: i32,
    event_id: EventId,
    /// Null: the event itself could not be decided.
    action: Option<Name>,
    seq: Option<Seq>,
    class: ErrorClass,
    fingerprint: String,
    reason: String,
    opened_at: Timestamp,
    resolved: Option<ResolutionOut>,
}

#[derive(Debug, Serialize)]
struct ResolutionOut {
    resolution: Resolution,
    actor: Option<String>,
    reason: Option<String>,
    at: Timestamp,
}

impl From<IncidentView> for IncidentOut {
    fn from(view: IncidentView) -> Self {
        let (action, seq) = view.action.map(|key| (key.action, key.seq)).unzip();
        let resolved = view.resolved.map(|resolved| ResolutionOut {
            resolution: resolved.resolution,
            actor: resolved.actor,
            reason: resolved.reason,
            at: resolved.at,
        });
        Self {
            incident_id: view.id,
            status: if resolved.is_some() { "resolved" } else { "open" },
            execution_id: view.execution.execution,
            definition: view.definition.name,
            version: view.definition.version,
            event_id: view.event_id,
            action,
            seq,
            class: view.class,
            fingerprint: view.fingerprint,
            reason: view.reason,
            opened_at: view.opened_at,
            resolved,
        }
    }
}

/// An incident with the current status of its action; an event that could not be decided has no action.
#[derive(Debug, Serialize)]
struct DetailOut {
    #[serde(flatten)]
    incident: IncidentOut,
    key: Option<String>,
    revision: Option<i32>,
    action_status: Option<ActionStatus>,
    attempts: Option<i32>,
    input: Option<RawJson>,
    error: Option<RawJson>,
    progress: Option<RawJson>,
}

impl DetailOut {
    fn of(view: IncidentView, action: Option<ActionView>) -> Self {
        Self {
            incident: view.into(),
            key: action.as_ref().map(|action| action.key.with_revision(action.revision)),
            revision: action.as_ref().map(|action| action.revision),
            action_status: action.as_ref().map(|action| action.status),
            attempts: action.as_ref().map(|action| action.attempts),
            input: action.as_ref().and_then(|action| action.input.clone()),
            error: action.as_ref().and_then(|action| action.error.clone()),
            progress: action.and_then(|action| action.progress),
        }
    }
}

#[derive(Debug, Serialize)]
struct GroupOut {
    fingerprint: String,
    definition: Name,
    action: Option<Name>,
    class: ErrorClass,
    count: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
    sample: IncidentOut,
}

impl From<IncidentGroup> for GroupOut {
    fn from(group: IncidentGroup) -> Self {
        Self {
            fingerprint: group.fingerprint,
            definition: group.definition,
            action: group.action,
            class: group.class,
            count: group.count,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
            sample: group.sample.into(),
        }
    }
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<IncidentOut>>, Problem> {
    let filter = IncidentFilter {
        status: params.parsed("status", |text| match text {
            "open" => Ok(IncidentStatus::Open),
            "resolved" => Ok(IncidentStatus::Resolved),
            _ => Err("is not one of open, resolved"),
        }),
        fingerprint: params.parsed("fingerprint", fingerprint),
        execution: params.parsed("execution_id", |text| ExecutionId::parse(text)),
        definition: params.parsed("definition", |text| Name::parse(text)),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Incidents, |text| text.parse().ok());
    params.finish()?;
    let found = door.stores.incidents.list_incidents(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &IncidentView| cursor::encode(List::Incidents, last.position);
    Ok(Json(Page::of(found, limit, cursor, IncidentOut::from)))
}

async fn groups(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<GroupOut>>, Problem> {
    let limit = params.limit(50, 500);
    params.finish()?;
    let found = door.stores.incidents.incident_groups(&caller.tenant, limit).await?;
    Ok(Json(Page { items: found.into_iter().map(GroupOut::from).collect(), next_cursor: None }))
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<DetailOut>, Problem> {
    params.finish()?;
    let view = find(&door, &caller, incident_of(&id)?).await?;
    let action = action_of(&door, &view).await?;
    Ok(Json(DetailOut::of(view, action)))
}

/// Parses the incident id of a path; text that cannot be an id is answered with 404.
pub(super) fn incident_of(id: &str) -> Result<IncidentId, Problem> {
    uuid::Uuid::parse_str(id).map(IncidentId).map_err(|_| Problem::not_found("incident", id))
}

pub(super) fn fingerprint(text: &str) -> Result<String, &'static str> {
    if is_fingerprint(text) { Ok(text.to_owned()) } else { Err("is not 16 digits of lower-case hex") }
}

/// Reads the incident, or answers 404.
pub(super) async fn find(door: &Door, caller: &Caller, id: IncidentId) -> Result<IncidentView, Problem> {
    let found = door.stores.incidents.incidents(&[(caller.tenant.clone(), id)]).await?;
    found.into_iter().next().flatten().ok_or_else(|| Problem::not_found("incident", id))
}

/// The current view of the incident's action, if it has one.
pub(super) async fn action_of(door: &Door, incident: &IncidentView) -> Result<Option<ActionView>, Problem> {
    let Some(key) = &incident.action else { return Ok(None) };
    let found = door.stores.tasks.find(std::slice::from_ref(key)).await?;
    Ok(found.into_iter().next().flatten())
}
