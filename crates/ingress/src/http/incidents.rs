//! Incidents: failures that need a decision by a person, listed singly and by group.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::incidents as api;
use millstream_api::incidents::{Incident, IncidentDetail, IncidentGroup, IncidentVerdict};
use millstream_api::page::Page;
use millstream_model::id::{ExecutionId, IncidentId, Name};
use millstream_model::incident::is_fingerprint;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_store::incidents::{IncidentFilter, IncidentGroupView, IncidentStatus, IncidentView};
use millstream_store::views::ActionRecord;

use super::route::Route;
use super::views::page_of;
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
            .returns::<Page<Incident>>(200, "One page"),
        Route::get("/v1/incidents/groups", "list_incident_groups", list_incident_groups)
            .summary("Open incidents grouped by fingerprint, the largest groups first")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit")])
            .returns::<Page<IncidentGroup>>(200, "The largest groups; there are no further pages"),
        Route::get("/v1/incidents/{incident_id}", "get_incident", get_incident)
            .summary("One incident, with its editable input and its attempts")
            .needs(Permission::ReadData)
            .returns::<IncidentDetail>(200, "The incident")
            .problems(&[404])
            .leads_to("get_execution", &["execution_id"])
            .leads_to("get_event", &["event_id"])
            .leads_to("retry_incident", &["incident_id"])
            .leads_to("retry_incident_group", &["fingerprint"]),
    ]
}

fn incident(view: IncidentView) -> Incident {
    let status = match view.status() {
        IncidentStatus::Open => api::IncidentStatus::Open,
        IncidentStatus::Resolved => api::IncidentStatus::Resolved,
    };
    let (action, seq) = view.action.map(|key| (key.action.to_string(), key.seq.0)).unzip();
    let resolved = view.resolved.map(|resolved| IncidentVerdict {
        resolution: resolved.resolution.into(),
        actor: resolved.actor,
        reason: resolved.reason,
        at: resolved.at,
    });
    Incident {
        incident_id: view.id.to_string(),
        status,
        execution_id: view.execution.execution.to_string(),
        definition: view.definition.name.to_string(),
        version: view.definition.version,
        event_id: view.event_id.to_string(),
        action,
        seq,
        class: view.class.to_string(),
        fingerprint: view.fingerprint,
        reason: view.reason,
        opened_at: view.opened_at,
        resolved,
    }
}

fn incident_detail(view: IncidentView, action: Option<ActionRecord>) -> IncidentDetail<RawJson> {
    let action = action.as_ref();
    IncidentDetail {
        incident: incident(view),
        key: action.map(|action| action.key.with_revision(action.revision)),
        revision: action.map(|action| action.revision),
        action_status: action.map(|action| action.status.into()),
        attempts: action.map(|action| action.attempts),
        input: action.and_then(|action| action.input.clone()),
        error: action.and_then(|action| action.error.clone()),
        progress: action.and_then(|action| action.progress.clone()),
    }
}

fn incident_group(group: IncidentGroupView) -> IncidentGroup {
    IncidentGroup {
        fingerprint: group.fingerprint,
        definition: group.definition.to_string(),
        action: group.action.map(|action| action.to_string()),
        class: group.class.to_string(),
        count: group.count,
        first_seen: group.first_seen,
        last_seen: group.last_seen,
        sample: incident(group.sample),
    }
}

async fn list_incidents(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<Incident>>, RequestRefusal> {
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
    Ok(Json(page_of(found, limit, cursor, incident)))
}

async fn list_incident_groups(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<IncidentGroup>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    params.finish_params()?;
    let found = door.stores.incidents.incident_groups(&caller.tenant, limit).await?;
    Ok(Json(Page { items: found.into_iter().map(incident_group).collect(), next_cursor: None }))
}

async fn get_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<IncidentDetail<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let view = find_incident(&door, &caller, parse_incident_id(&id)?).await?;
    let action = find_incident_action(&door, &view).await?;
    Ok(Json(incident_detail(view, action)))
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
