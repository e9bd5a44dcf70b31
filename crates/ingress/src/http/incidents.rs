//! Incidents: failures that need a decision by a person, listed singly and by group.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{EventId, ExecutionId, IncidentId, Name, Seq};
use millstream_model::incident::is_fingerprint;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, IncidentResolution};
use millstream_model::time::Timestamp;
use millstream_store::incidents::{IncidentFilter, IncidentGroupView, IncidentStatus, IncidentView};
use millstream_store::views::ActionRecord;
use serde::Serialize;

use super::route::Route;
use super::views::PageOut;
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/incidents", "list_incidents", list_incidents)
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
        Route::get("/v1/incidents/groups", "list_incident_groups", list_incident_groups)
            .summary("Open incidents grouped by fingerprint, the largest groups first")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit")])
            .answer(200, "IncidentGroups", "The largest groups; there are no further pages"),
        Route::get("/v1/incidents/{incident_id}", "get_incident", get_incident)
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
    resolved: Option<IncidentResolutionOut>,
}

#[derive(Debug, Serialize)]
struct IncidentResolutionOut {
    resolution: IncidentResolution,
    actor: Option<String>,
    reason: Option<String>,
    at: Timestamp,
}

impl From<IncidentView> for IncidentOut {
    fn from(view: IncidentView) -> Self {
        let (action, seq) = view.action.map(|key| (key.action, key.seq)).unzip();
        let resolved = view.resolved.map(|resolved| IncidentResolutionOut {
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
struct IncidentDetailOut {
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

impl IncidentDetailOut {
    fn of(view: IncidentView, action: Option<ActionRecord>) -> Self {
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
struct IncidentGroupOut {
    fingerprint: String,
    definition: Name,
    action: Option<Name>,
    class: ErrorClass,
    count: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
    sample: IncidentOut,
}

impl From<IncidentGroupView> for IncidentGroupOut {
    fn from(group: IncidentGroupView) -> Self {
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

async fn list_incidents(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<PageOut<IncidentOut>>, RequestRefusal> {
    let filter = IncidentFilter {
        status: params.parse_param("status", |text| match text {
            "open" => Ok(IncidentStatus::Open),
            "resolved" => Ok(IncidentStatus::Resolved),
            _ => Err("is not one of open, resolved"),
        }),
        fingerprint: params.parse_param("fingerprint", parse_fingerprint),
        execution: params.parse_param("execution_id", |text| ExecutionId::parse(text)),
        definition: params.parse_param("definition", |text| Name::parse(text)),
    };
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Incidents, |text| text.parse().ok());
    params.finish_params()?;
    let found = door.stores.incidents.list_incidents(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &IncidentView| cursor::encode(CursorList::Incidents, last.position);
    Ok(Json(PageOut::of(found, limit, cursor, IncidentOut::from)))
}

async fn list_incident_groups(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<PageOut<IncidentGroupOut>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    params.finish_params()?;
    let found = door.stores.incidents.incident_groups(&caller.tenant, limit).await?;
    Ok(Json(PageOut { items: found.into_iter().map(IncidentGroupOut::from).collect(), next_cursor: None }))
}

async fn get_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<IncidentDetailOut>, RequestRefusal> {
    params.finish_params()?;
    let view = find_incident(&door, &caller, parse_incident_id(&id)?).await?;
    let action = find_incident_action(&door, &view).await?;
    Ok(Json(IncidentDetailOut::of(view, action)))
}

/// Parses the incident id of a path; text that cannot be an id is answered with 404.
pub(super) fn parse_incident_id(id: &str) -> Result<IncidentId, RequestRefusal> {
    uuid::Uuid::parse_str(id).map(IncidentId).map_err(|_| RequestRefusal::not_found("incident", id))
}

pub(super) fn parse_fingerprint(text: &str) -> Result<String, &'static str> {
    if is_fingerprint(text) { Ok(text.to_owned()) } else { Err("is not 16 digits of lower-case hex") }
}

/// Reads the incident, or answers 404.
pub(super) async fn find_incident(
    door: &IngressState,
    caller: &TenantCaller,
    id: IncidentId,
) -> Result<IncidentView, RequestRefusal> {
    let found = door.stores.incidents.find_incidents(&[(caller.tenant.clone(), id)]).await?;
    found.into_iter().next().flatten().ok_or_else(|| RequestRefusal::not_found("incident", id))
}

/// The current view of the incident's action, if it has one.
pub(super) async fn find_incident_action(
    door: &IngressState,
    incident: &IncidentView,
) -> Result<Option<ActionRecord>, RequestRefusal> {
    let Some(key) = &incident.action else { return Ok(None) };
    let found = door.stores.tasks.find_actions(std::slice::from_ref(key)).await?;
    Ok(found.into_iter().next().flatten())
}
