//! `ActOnRun`: decodes the act of a device, and encodes the status of the seat.

use millstream_devices::claim::{DeviceAction, SeatFailure, SeatFailureKind, SeatToken};
use millstream_model::id::{DeviceId, Name};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_rpc::length::time_out;
use millstream_rpc::proto::act_on_run_request::Act;
use millstream_rpc::proto::{
    ActOnRunRequest, ActOnRunResponse, RunAccept, RunClaim, RunComplete, RunFail, RunGiveUp, RunOfflineClaim,
    RunProgress, RunStart,
};

use super::devices::decode_progress;
use crate::devices::acts::{DeviceActRequest, DeviceActor, MAX_NOTE, SeatStanding};
use crate::tasks::outcome::{MAX_MESSAGE, MAX_RESULT};

/// The actor and its act, or all faults of the message.
pub(super) fn decode_act(given: ActOnRunRequest) -> Result<(DeviceActor, DeviceActRequest), Vec<Fault>> {
    let mut faults = Vec::new();
    let device = DeviceId::parse(&given.device_id);
    let device = device.map_err(|error| faults.push(Fault::new("device_id", error.to_string()))).ok();
    let seat = given.seat.map(u16::try_from).transpose();
    let seat = seat.unwrap_or_else(|_| {
        faults.push(Fault::new("seat", "is not the number of a seat"));
        None
    });
    let needs_token = !matches!(given.act, Some(Act::Claim(_)));
    if needs_token && given.token == 0 {
        faults.push(Fault::new("token", "is required: it came with the assignment"));
    }
    let deed = match given.act.map(decode_deed) {
        Some(Ok(deed)) => Some(deed),
        Some(Err(fault)) => {
            faults.push(fault);
            None
        }
        None => {
            faults.push(Fault::new("act", "is required: the act of the device"));
            None
        }
    };
    match (device, deed) {
        (Some(device), Some(deed)) if faults.is_empty() => {
            Ok((DeviceActor { device, seat, token: SeatToken(given.token) }, deed))
        }
        (_, _) => Err(faults),
    }
}

fn decode_deed(act: Act) -> Result<DeviceActRequest, Fault> {
    Ok(match act {
        Act::Accept(RunAccept {}) => DeviceActRequest::Do(DeviceAction::Accept),
        Act::Start(RunStart {}) => DeviceActRequest::Do(DeviceAction::Start),
        Act::Claim(RunClaim {}) => DeviceActRequest::Claim,
        Act::OfflineClaim(RunOfflineClaim {}) => DeviceActRequest::OfflineClaim,
        Act::Decline(why) => DeviceActRequest::Do(DeviceAction::Decline { reason: clip_reason(why) }),
        Act::Release(why) => DeviceActRequest::Do(DeviceAction::Release { reason: clip_reason(why) }),
        Act::Abort(why) => DeviceActRequest::Do(DeviceAction::Abort { reason: clip_reason(why) }),
        Act::Progress(progress) => {
            DeviceActRequest::Do(DeviceAction::Progress(decode_progress(check_note(progress)?)))
        }
        Act::Complete(RunComplete { output_json }) => {
            DeviceActRequest::Do(DeviceAction::Complete { output: decode_output(&output_json)? })
        }
        Act::Fail(failure) => DeviceActRequest::Do(decode_failure(failure)?),
    })
}

fn clip_reason(RunGiveUp { reason }: RunGiveUp) -> Option<String> {
    Some(reason.chars().take(MAX_MESSAGE).collect()).filter(|reason: &String| !reason.is_empty())
}

fn check_note(progress: RunProgress) -> Result<RunProgress, Fault> {
    if progress.note.len() > MAX_NOTE {
        return Err(Fault::new("progress.note", format!("has more than {MAX_NOTE} bytes")));
    }
    Ok(progress)
}

fn decode_output(text: &str) -> Result<RawJson, Fault> {
    let path = "complete.output_json";
    if text.is_empty() {
        return Ok(RawJson::null());
    }
    if text.len() > MAX_RESULT {
        let message = format!("is {} bytes long, at most {MAX_RESULT} are kept", text.len());
        return Err(Fault::new(path, message));
    }
    RawJson::parse(text).map_err(|error| Fault::new(path, error.to_string()))
}

fn decode_failure(RunFail { message, class, retryable }: RunFail) -> Result<DeviceAction, Fault> {
    if message.is_empty() {
        return Err(Fault::new("fail.message", "is required"));
    }
    let class = match class.as_str() {
        "" => None,
        class => Some(Name::parse(class).map_err(|error| Fault::new("fail.class", error.to_string()))?),
    };
    let message = message.chars().take(MAX_MESSAGE).collect();
    Ok(DeviceAction::Fail {
        failure: SeatFailure { kind: SeatFailureKind::Error, message, class },
        retryable,
    })
}

pub(super) fn encode_standing(stands: SeatStanding) -> ActOnRunResponse {
    ActOnRunResponse {
        run_id: stands.run_id.to_string(),
        seat: stands.seat.into(),
        status: stands.status.to_string(),
        run_status: stands.run_status.to_string(),
        paused: stands.paused,
        token: stands.token.map_or(0, |token| token.0),
        due_at: stands.due.as_ref().map(|next| time_out(next.at)),
        due_for: stands.due.map(|next| next.what.to_string()).unwrap_or_default(),
    }
}
