//! Acts of a device on a run; each names its seat and the token of its assignment.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::run_acts::{
    RunActed, RunClaim, RunComplete, RunFail, RunGiveUp, RunProgressReport, RunSeatAct,
};
use millstream_devices::claim::{
    DeviceAction, RunInputKind, SeatFailure, SeatFailureKind, SeatProgress, SeatToken,
};
use millstream_model::id::{DeviceId, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;

use super::views::run_due;
use super::words::run_status;
use crate::auth::TenantCaller;
use crate::devices::acts::{self, DeviceActRequest, DeviceActor, MAX_NOTE, SeatDeadline, SeatStanding};
use crate::devices::runs;
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::fields::parse_whole_number;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::tasks::outcome::{MAX_MESSAGE, MAX_RESULT};

const BODY_BYTES: usize = 256 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        act_route("/v1/runs/{run_id}/accept", "accept_run", RunInputKind::Accept)
            .summary("Accept the offered seat")
            .accepts::<RunSeatAct>(),
        act_route("/v1/runs/{run_id}/decline", "decline_run", RunInputKind::Decline)
            .summary("Decline the offered seat: another device is asked")
            .accepts::<RunGiveUp>(),
        act_route("/v1/runs/{run_id}/start", "start_run", RunInputKind::Start)
            .summary("Start work on the run")
            .accepts::<RunSeatAct>(),
        act_route("/v1/runs/{run_id}/progress", "progress_run", RunInputKind::Progress)
            .summary("Report progress")
            .accepts::<RunProgressReport>(),
        act_route("/v1/runs/{run_id}/complete", "complete_run", RunInputKind::Complete)
            .summary("Complete the run with its output")
            .accepts::<RunComplete>(),
        act_route("/v1/runs/{run_id}/fail", "fail_run", RunInputKind::Fail)
            .summary("Report a failure: of the run, or of this device only")
            .accepts::<RunFail>(),
        act_route("/v1/runs/{run_id}/release", "release_run", RunInputKind::Release)
            .summary("Release the seat; the progress is kept")
            .accepts::<RunGiveUp>(),
        act_route("/v1/runs/{run_id}/abort", "abort_run", RunInputKind::Abort)
            .summary("Abort the work and release the seat")
            .accepts::<RunGiveUp>(),
        act_route("/v1/runs/{run_id}/claim", "claim_run", RunInputKind::SelfClaim)
            .summary("Claim an unassigned seat")
            .accepts::<RunClaim>(),
        act_route("/v1/runs/{run_id}/offline_claim", "offline_claim_run", RunInputKind::OfflineClaim)
            .summary("Claim the seat that the device held before it was disconnected")
            .accepts::<RunSeatAct>(),
    ]
}

fn act_route(path: &'static str, id: &'static str, word: RunInputKind) -> Route {
    let handler = move |State(door): State<Arc<IngressState>>,
                        caller: TenantCaller,
                        Path(run): Path<String>,
                        params: QueryParams,
                        request: Request| async move {
        params.finish_params()?;
        act_on_run(&door, &caller, &run, word, request).await.map(Json)
    };
    Route::post(path, id, handler)
        .needs(Permission::ActAsDevice)
        .returns::<RunActed>(200, "Done, by this request or by the same one before")
        .problems(&[404, 409])
}

async fn act_on_run(
    door: &IngressState,
    caller: &TenantCaller,
    id: &str,
    word: RunInputKind,
    request: Request,
) -> Result<RunActed, RequestRefusal> {
    let key = runs::parse_run_key(caller, id)?;
    let body = read_json_body(door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let who = read_actor(&mut fields, word);
    let doing = read_device_action(&mut fields, word);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    // Unreachable: a missing device is a fault, which `finish` reports.
    let Some(who) = who else { return Err(RequestRefusal::bad_request("device is missing")) };
    caller.require_device(&who.device)?;
    let deed = match (word, doing) {
        (RunInputKind::OfflineClaim, _) => DeviceActRequest::OfflineClaim,
        (_, Some(doing)) => DeviceActRequest::Do(doing),
        (_, None) => DeviceActRequest::Claim,
    };
    acts::act_on_run(&door.devices, key, who, deed).await.map(run_acted)
}

fn run_acted(standing: SeatStanding) -> RunActed {
    RunActed {
        run_id: standing.run_id.to_string(),
        seat: standing.seat,
        status: run_status(standing.status),
        run_status: run_status(standing.run_status),
        paused: standing.paused,
        token: standing.token.map(|token| token.0),
        due: standing.due.map(|SeatDeadline { at, what }| run_due((at, what))),
    }
}

fn read_actor(fields: &mut JsonFields<'_>, word: RunInputKind) -> Option<DeviceActor> {
    let given = fields.required_text("device");
    let device = fields.parse_text("device", given, |text: &str| DeviceId::parse(text));
    let seat = read_seat(fields);
    let token = if word == RunInputKind::SelfClaim { SeatToken::NONE } else { read_token(fields) };
    Some(DeviceActor { device: device?, seat, token })
}

pub(super) fn read_seat(fields: &mut JsonFields<'_>) -> Option<u16> {
    fields.whole_number("seat", 0..=99).and_then(|seat| u16::try_from(seat).ok())
}

fn read_token(fields: &mut JsonFields<'_>) -> SeatToken {
    match fields.take_field("token").map(parse_whole_number) {
        Some(Some(token)) => return SeatToken(token),
        Some(None) => fields.add_fault("token", "must be the whole number that came with the assignment"),
        None => fields.add_fault("token", "is required: it came with the assignment"),
    }
    SeatToken::NONE
}

/// `None` for an act that does not need a held seat.
fn read_device_action(fields: &mut JsonFields<'_>, word: RunInputKind) -> Option<DeviceAction> {
    if word == RunInputKind::Accept {
        Some(DeviceAction::Accept)
    } else if word == RunInputKind::Start {
        Some(DeviceAction::Start)
    } else if word == RunInputKind::Decline {
        Some(DeviceAction::Decline { reason: read_reason(fields) })
    } else if word == RunInputKind::Release {
        Some(DeviceAction::Release { reason: read_reason(fields) })
    } else if word == RunInputKind::Abort {
        Some(DeviceAction::Abort { reason: read_reason(fields) })
    } else if word == RunInputKind::Progress {
        Some(DeviceAction::Progress(read_progress(fields)))
    } else if word == RunInputKind::Complete {
        Some(DeviceAction::Complete { output: read_output(fields) })
    } else if word == RunInputKind::Fail {
        Some(read_failure(fields))
    } else {
        None
    }
}

fn read_reason(fields: &mut JsonFields<'_>) -> Option<String> {
    fields.take_text("reason").map(|text| text.chars().take(MAX_MESSAGE).collect())
}

fn read_output(fields: &mut JsonFields<'_>) -> RawJson {
    let output = fields.raw_json("output").unwrap_or_else(RawJson::null);
    if output.len() > MAX_RESULT {
        fields.add_fault("output", format!("is {} bytes long, at most {MAX_RESULT} are kept", output.len()));
    }
    output
}

fn read_progress(fields: &mut JsonFields<'_>) -> SeatProgress {
    let mut number = |field: &'static str| match fields.take_field(field).map(parse_whole_number::<u64>) {
        Some(Some(number)) => number,
        Some(None) => {
            fields.add_fault(field, "must be a whole number from 0 on");
            0
        }
        None => {
            fields.add_fault(field, "is required");
            0
        }
    };
    let (step, total) = (number("step"), number("total"));
    let note = fields.take_text("note").map(|text| text.into_owned());
    if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
        fields.add_fault("note", format!("has more than {MAX_NOTE} characters"));
    }
    SeatProgress { step, total, note }
}

/// Reads a failure: permanent, unless the device says that another device may be asked.
fn read_failure(fields: &mut JsonFields<'_>) -> DeviceAction {
    let message = fields.required_text("message").unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    let class = fields.take_text("class");
    let class = fields.parse_text("class", class, |text: &str| Name::parse(text));
    let retryable = match fields.take_field("retryable") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            fields.add_fault("retryable", "must be true or false");
            false
        }
    };
    DeviceAction::Fail { failure: SeatFailure { kind: SeatFailureKind::Error, message, class }, retryable }
}
