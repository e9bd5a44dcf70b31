//! Creates a run; its devices are chosen in the same write.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::claim::{Assign, Creator, Overrides, Policy, RunSpec};
use millstream_core::id::{DeviceId, Name, RunId};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use serde::Deserialize;

use super::views::RunOut;
use crate::auth::Caller;
use crate::devices::runs::{self, Made};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::{Located, Route};
use crate::http::strict::{Object, decode_object, whole, whole_or_none};
use crate::http::tasks::read;
use crate::query::Params;

/// The same limit as in a definition.
const MAX_REASSIGNMENTS: u32 = 10_000;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", "create_run", create)
            .summary("Create a run and assign it to the best suited devices")
            .needs(Permission::PostEvents)
            .body("application/json", "NewRun")
            .answer(201, "Run", "Created; it may already be assigned")
            .answer(200, "Run", "Created before by the same request")
            .problems(&[409])
            .located(Located::Always)
            .leads_to("get_run", &["run_id"])
            .leads_to("get_run_log", &["run_id"]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct NewRun {
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
    assign: Assign,
    #[serde(default)]
    settings: Object<Overrides>,
}

const fn one() -> u16 {
    1
}

const fn yes() -> bool {
    true
}

const fn auto() -> Assign {
    Assign::Auto
}

async fn create(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let body = read(&door, request, door.options.limits.message_bytes).await?;
    let given: NewRun = decode_object(body.json()?).map_err(Problem::invalid)?;
    let most = given.settings.0.max_reassignments.unwrap_or_default();
    let (id, spec) = spec(given, &door.options.devices);
    let mut faults = spec.problems();
    if most > MAX_REASSIGNMENTS {
        let message = format!("must be from 0 to {MAX_REASSIGNMENTS}");
        faults.push(Fault::new("settings.max_reassignments", message));
    }
    if let Err(error) = spec.input.within_depth() {
        faults.push(Fault::new("input", error.to_string()));
    }
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    let (key, run, made) = runs::create(&door, &caller, id, spec).await?;
    let status = match made {
        Made::Now => StatusCode::CREATED,
        Made::Before => StatusCode::OK,
    };
    let location = [(header::LOCATION, format!("/v1/runs/{}", key.run))];
    Ok((status, location, Json(RunOut::whole(key.run, run))).into_response())
}

fn spec(given: NewRun, policy: &Policy) -> (Option<RunId>, RunSpec) {
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
        settings: given.settings.0.over(policy.of(&given.kind)),
        creator: given.created_by.map(|device| Creator { device, willing }),
        ..RunSpec::of(given.kind, given.input)
    };
    (given.run_id, spec)
}
