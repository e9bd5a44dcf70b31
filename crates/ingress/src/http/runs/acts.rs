//! Acts of a device on a run; each names its seat and the token of its assignment.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::claim::{Doing, Failure, FailureKind, Progress, Token, Word};
use millstream_core::id::{DeviceId, Name};
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;

use crate::auth::Caller;
use crate::devices::acting::{self, Deed, Stands, Who};
use crate::devices::runs;
use crate::door::Door;
use crate::fields::Fields;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::task_outcomes::{MAX_MESSAGE, MAX_RESULT};
use crate::http::tasks::{read, whole};
use crate::query::Params;

const BODY_BYTES: usize = 256 * 1024;
/// Length limit in characters.
pub(crate) const MAX_NOTE: usize = 1_000;

/// Path, operation id, kind of input, body schema and summary.
type Row = (&'static str, &'static str, Word, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("/v1/runs/{run_id}/accept", "accept_run", Word::Accept, "RunAct", "Accept the offered seat"),
    (
        "/v1/runs/{run_id}/decline",
        "decline_run",
        Word::Decline,
        "RunGiveUp",
        "Decline the offered seat: another device is asked",
    ),
    ("/v1/runs/{run_id}/start", "start_run", Word::Start, "RunAct", "Start work on the run"),
    ("/v1/runs/{run_id}/progress", "progress_run", Word::Progress, "RunProgress", "Report progress"),
    (
        "/v1/runs/{run_id}/complete",
        "complete_run",
        Word::Complete,
        "RunComplete",
        "Complete the run with its output",
    ),
    (
        "/v1/runs/{run_id}/fail",
        "fail_run",
        Word::Fail,
        "RunFail",
        "Report a failure: of the run, or of this device only",
    ),
    (
        "/v1/runs/{run_id}/release",
        "release_run",
        Word::Release,
        "RunGiveUp",
        "Release the seat; the progress is kept",
    ),
    ("/v1/runs/{run_id}/abort", "abort_run", Word::Abort, "RunGiveUp", "Abort the work and release the seat"),
    ("/v1/runs/{run_id}/claim", "claim_run", Word::SelfClaim, "RunClaim", "Claim an unassigned seat"),
    (
        "/v1/runs/{run_id}/offline_claim",
        "offline_claim_run",
        Word::OfflineClaim,
        "RunAct",
        "Claim the seat that the device held before it was disconnected",
    ),
];

pub(in crate::http) fn routes() -> Vec<Route> {
    let route = |(path, id, word, body, summary): &Row| {
        let word = *word;
        let handler = move |State(door): State<Arc<Door>>,
                            caller: Caller,
                            Path(run): Path<String>,
                            params: Params,
                            request: Request| async move {
            params.finish()?;
            act(&door, &caller, &run, word, request).await.map(Json)
        };
        Route::post(path, id, handler)
            .summary(summary)
            .needs(Permission::ActAsDevice)
            .body("application/json", body)
            .answer(200, "RunActed", "Done, by this request or by the same one before")
            .problems(&[404, 409])
    };
    ROWS.iter().map(route).collect()
}

async fn act(
    door: &Door,
    caller: &Caller,
    id: &str,
    word: Word,
    request: Request,
) -> Result<Stands, Problem> {
    let key = runs::key_of(caller, id)?;
    let body = read(door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let who = who(&mut fields, word);
    let doing = doing(&mut fields, word);
    fields.finish().map_err(Problem::invalid)?;
    // Unreachable: a missing device is a fault, which `finish` reports.
    let Some(who) = who else { return Err(Problem::bad_request("device is missing")) };
    caller.require_device(&who.device)?;
    let deed = match (word, doing) {
        (Word::OfflineClaim, _) => Deed::OfflineClaim,
        (_, Some(doing)) => Deed::Do(doing),
        (_, None) => Deed::Claim,
    };
    acting::act(door, key, who, deed).await
}

fn who(fields: &mut Fields<'_>, word: Word) -> Option<Who> {
    let given = fields.required("device");
    let device = fields.parsed("device", given, |text: &str| DeviceId::parse(text));
    let seat = seat(fields);
    let token = if word == Word::SelfClaim { Token::NONE } else { token(fields) };
    Some(Who { device: device?, seat, token })
}

pub(super) fn seat(fields: &mut Fields<'_>) -> Option<u16> {
    fields.whole("seat", 0..=99).and_then(|seat| u16::try_from(seat).ok())
}

fn token(fields: &mut Fields<'_>) -> Token {
    match fields.take("token").map(whole) {
        Some(Some(token)) => return Token(token),
        Some(None) => fields.fault("token", "must be the whole number that came with the assignment"),
        None => fields.fault("token", "is required: it came with the assignment"),
    }
    Token::NONE
}

/// `None` for an act that does not need a held seat.
fn doing(fields: &mut Fields<'_>, word: Word) -> Option<Doing> {
    if word == Word::Accept {
        Some(Doing::Accept)
    } else if word == Word::Start {
        Some(Doing::Start)
    } else if word == Word::Decline {
        Some(Doing::Decline { reason: reason(fields) })
    } else if word == Word::Release {
        Some(Doing::Release { reason: reason(fields) })
    } else if word == Word::Abort {
        Some(Doing::Abort { reason: reason(fields) })
    } else if word == Word::Progress {
        Some(Doing::Progress(progress(fields)))
    } else if word == Word::Complete {
        Some(Doing::Complete { output: output(fields) })
    } else if word == Word::Fail {
        Some(failure(fields))
    } else {
        None
    }
}

fn reason(fields: &mut Fields<'_>) -> Option<String> {
    fields.text("reason").map(|text| text.chars().take(MAX_MESSAGE).collect())
}

fn output(fields: &mut Fields<'_>) -> RawJson {
    let output = fields.raw("output").unwrap_or_else(RawJson::null);
    if output.len() > MAX_RESULT {
        fields.fault("output", format!("is {} bytes long, at most {MAX_RESULT} are kept", output.len()));
    }
    output
}

fn progress(fields: &mut Fields<'_>) -> Progress {
    let mut number = |field: &'static str| match fields.take(field).map(whole::<u64>) {
        Some(Some(number)) => number,
        Some(None) => {
            fields.fault(field, "must be a whole number from 0 on");
            0
        }
        None => {
            fields.fault(field, "is required");
            0
        }
    };
    let (step, total) = (number("step"), number("total"));
    let note = fields.text("note").map(|text| text.into_owned());
    if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
        fields.fault("note", format!("has more than {MAX_NOTE} characters"));
    }
    Progress { step, total, note }
}

/// Reads a failure: permanent, unless the device says that another device may be asked.
fn failure(fields: &mut Fields<'_>) -> Doing {
    let message = fields.required("message").unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    let class = fields.text("class");
    let class = fields.parsed("class", class, |text: &str| Name::parse(text));
    let retryable = match fields.take("retryable") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            fields.fault("retryable", "must be true or false");
            false
        }
    };
    Doing::Fail { failure: Failure { kind: FailureKind::Error, message, class }, retryable }
}
