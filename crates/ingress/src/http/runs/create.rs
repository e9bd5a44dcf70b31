//! Creates a run; its devices are chosen in the same write.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::new_run::NewRun;
use millstream_api::runs::RunSummary;
use millstream_devices::claim::{CreatingDevice, DevicePolicy, RunAssignMode, RunSettingsOverrides, RunSpec};
use millstream_model::id::{DeviceId, Name, RunId};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use serde::Deserialize;

use super::views::{RunDetail, run_summary};
use crate::auth::TenantCaller;
use crate::devices::runs::{self, RunCreated};
use crate::http::body::read_json_body;
use crate::http::query::QueryParams;
use crate::http::route::{LocationHeader, Route};
use crate::http::strict_json::{StrictObject, decode_object, whole, whole_or_none};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

/// The same limit as in a definition.
const MAX_REASSIGNMENTS: u32 = 10_000;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", "create_run", create_run)
            .summary("Create a run and assign it to the best suited devices")
            .needs(Permission::PostEvents)
            .accepts::<NewRun>()
            .returns::<RunSummary>(201, "Created; it may already be assigned")
            .returns::<RunSummary>(200, "Created before by the same request")
            .problems(&[409])
            .located(LocationHeader::Always)
            .leads_to("get_run", &["run_id"])
            .leads_to("get_run_log", &["run_id"]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct NewRunRequest {
    run_id: Option<RunId>,
    kind: Name,
    #[serde(default)]
    requires: BTreeSet<Name>,
    #[serde(default)]
    prefer: BTreeSet<Name>,
    #[serde(default = "RawJson::null")]
    input: RawJson,
    #[serde(default, deserialize_with = "whole")]
    priority: i32,
    #[serde(default)]
    preempt: bool,
    #[serde(default)]
    coordinator: bool,
    #[serde(default, deserialize_with = "whole_or_none")]
    min_battery: Option<u8>,
    #[serde(default = "one", deserialize_with = "whole")]
    devices: u16,
    created_by: Option<DeviceId>,
    #[serde(default = "yes")]
    willing: bool,
    #[serde(default = "auto")]
    assign: RunAssignMode,
    #[serde(default)]
    settings: StrictObject<RunSettingsOverrides>,
}

const fn one() -> u16 {
    1
}

const fn yes() -> bool {
    true
}

const fn auto() -> RunAssignMode {
    RunAssignMode::Auto
}

async fn create_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, door.options.limits.message_bytes).await?;
    let given: NewRunRequest = decode_object(body.json()?).map_err(RequestRefusal::invalid)?;
    let most = given.settings.0.max_reassignments.unwrap_or_default();
    let (id, spec) = build_run_spec(given, &door.options.devices);
    let mut faults = spec.find_problems();
    if most > MAX_REASSIGNMENTS {
        let message = format!("must be from 0 to {MAX_REASSIGNMENTS}");
        faults.push(Fault::new("settings.max_reassignments", message));
    }
    if let Err(error) = spec.input.check_nesting() {
        faults.push(Fault::new("input", error.to_string()));
    }
    if !faults.is_empty() {
        return Err(RequestRefusal::invalid(faults));
    }
    let (key, run, made) = runs::create_run(&door.devices, &caller, id, spec).await?;
    let status = match made {
        RunCreated::Now => StatusCode::CREATED,
        RunCreated::Before => StatusCode::OK,
    };
    let location = [(header::LOCATION, format!("/v1/runs/{}", key.run))];
    let run = run_summary(key.run, run, RunDetail::Whole);
    Ok((status, location, Json(run)).into_response())
}

fn build_run_spec(given: NewRunRequest, policy: &DevicePolicy) -> (Option<RunId>, RunSpec) {
    let willing = given.willing;
    let spec = RunSpec {
        requires: given.requires,
        prefer: given.prefer,
        priority: given.priority,
        preempt: given.preempt,
        prefer_coordinator: given.coordinator,
        min_battery: given.min_battery,
        assign: given.assign,
        devices: given.devices,
        settings: given.settings.0.apply_to(policy.settings_of(&given.kind)),
        creator: given.created_by.map(|device| CreatingDevice { device, willing }),
        ..RunSpec::with_defaults(given.kind, given.input)
    };
    (given.run_id, spec)
}
