//! Bulk resolution: one decision for all open incidents of a group (same fingerprint).
//!
//! Incidents are resolved in batches, newest first. An incident that opens during the call is newer than the
//! start of the walk and is skipped, so that the call terminates.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_api::incidents::{GroupDecision, GroupResolved};
use millstream_model::id::{IncidentId, TenantId};
use millstream_model::permission::Permission;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentStatus, IncidentView, ResolveVerdict,
};
use millstream_store::intervention::DecisionRecord;

use super::incidents::parse_fingerprint;
use super::resolutions::{ENVELOPE_BYTES, ManualEnding, read_decision_reason, resolution_bells};
use super::route::Route;
use crate::auth::TenantCaller;
use crate::http::body::{body_text, read_optional_body};
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::trace::TraceContext;

/// Incidents resolved in one transaction.
const BATCH: usize = 256;
/// Incidents resolved by one call; `remaining` reports the rest.
const MOST: u32 = 10_000;
/// Number of groups to search for a stored count before incidents are counted one by one.
const GROUPS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    let resolves = |route: Route| {
        route
            .needs(Permission::Operate)
            .accepts::<GroupDecision>()
            .body_optional()
            .returns::<GroupResolved>(202, "Recorded; `remaining` incidents are open now, including new ones")
            .problems(&[404])
    };
    vec![
        resolves(Route::post(
            "/v1/incidents/groups/{fingerprint}/retry",
            "retry_incident_group",
            retry_group,
        ))
        .summary("Retry every incident of a group"),
        resolves(Route::post("/v1/incidents/groups/{fingerprint}/fail", "fail_incident_group", fail_group))
            .summary("End every execution of a group as failed"),
        resolves(Route::post(
            "/v1/incidents/groups/{fingerprint}/cancel",
            "cancel_incident_group",
            cancel_group,
        ))
        .summary("End every execution of a group as cancelled"),
    ]
}

async fn retry_group(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(group): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    resolve_group(&door, &caller, &group, request, |_, _| IncidentDecision::Retry).await
}

async fn fail_group(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path(group): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let end = |incident: &IncidentView, reason: Option<&str>| {
        ManualEnding::Fail.resolving(&door, &caller, &trace, incident.execution.clone(), reason)
    };
    resolve_group(&door, &caller, &group, request, end).await
}

async fn cancel_group(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path(group): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let end = |incident: &IncidentView, reason: Option<&str>| {
        ManualEnding::Cancel.resolving(&door, &caller, &trace, incident.execution.clone(), reason)
    };
    resolve_group(&door, &caller, &group, request, end).await
}

async fn resolve_group(
    door: &IngressState,
    caller: &TenantCaller,
    group: &str,
    request: Request,
    how: impl Fn(&IncidentView, Option<&str>) -> IncidentDecision,
) -> Result<Response, RequestRefusal> {
    let nothing = || RequestRefusal::not_found("group of incidents", group);
    let group = parse_fingerprint(group).map_err(|_| nothing())?;
    let (parts, body) = request.into_parts();
    let body = read_optional_body(door, &parts.headers, body, ENVELOPE_BYTES).await?;
    let mut fields = JsonFields::of(body_text(&body)?, "").map_err(RequestRefusal::invalid)?;
    let reason = read_decision_reason(&mut fields);
    let limit = fields.whole_number("limit", 1..=MOST).unwrap_or(MOST) as usize;
    fields.finish_fields().map_err(RequestRefusal::invalid)?;

    let by = DecisionRecord { actor: caller.actor.clone(), reason };
    let known = IncidentFilter { fingerprint: Some(group.clone()), ..IncidentFilter::default() };
    if door.stores.incidents.list_incidents(&caller.tenant, &known, None, 1).await?.is_empty() {
        return Err(nothing());
    }
    let open = IncidentFilter { status: Some(IncidentStatus::Open), ..known };
    let (mut taken, mut resolved, mut after) = (0, 0, None);
    while taken < limit {
        let wanted = BATCH.min(limit - taken);
        let found = door.stores.incidents.list_incidents(&caller.tenant, &open, after, wanted).await?;
        let Some(last) = found.last() else { break };
        after = Some(last.position);
        taken += found.len();
        let batch: Vec<(IncidentId, IncidentDecision)> =
            found.iter().map(|incident| (incident.id, how(incident, by.reason.as_deref()))).collect();
        let verdicts =
            door.stores.incidents.resolve_incidents(&caller.tenant, &batch, &by, door.clock.now()).await?;
        door.news.work.notify_one();
        for verdict in verdicts {
            match verdict {
                ResolveVerdict::Done { execution } => {
                    resolved += 1;
                    door.ring.ring_later(resolution_bells(&execution));
                }
                // Another request has resolved the incident.
                ResolveVerdict::Already { .. } | ResolveVerdict::NotFound => {}
            }
        }
    }
    let remaining = count_open_incidents(door, &caller.tenant, &group, &open).await?;
    Ok((StatusCode::ACCEPTED, Json(GroupResolved { resolved, remaining })).into_response())
}

/// Number of open incidents of the group.
async fn count_open_incidents(
    door: &IngressState,
    tenant: &TenantId,
    group: &str,
    open: &IncidentFilter,
) -> Result<u64, RequestRefusal> {
    let groups = door.stores.incidents.incident_groups(tenant, GROUPS).await?;
    if let Some(found) = groups.iter().find(|found| found.fingerprint == group) {
        return Ok(found.count);
    }
    if groups.len() < GROUPS {
        return Ok(0);
    }
    // The group is smaller than all of those listed: counting its incidents is cheap.
    let (mut count, mut after) = (0, None);
    loop {
        let page = door.stores.incidents.list_incidents(tenant, open, after, BATCH).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = Some(last.position);
        count += page.len() as u64;
    }
}
