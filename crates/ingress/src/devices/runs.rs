//! Runs of devices: create, find, and act.

use millstream_core::claim::{Run, RunSpec};
use millstream_core::entropy;
use millstream_core::id::{DeviceId, RunId, RunKey};
use millstream_store::StoreError;
use millstream_store::run_store::StoredRun;
use millstream_store::running::{Acted, Answer, Ask, Created, Order, Want};

use super::counted;
use super::refused::{no_run, refused};
use crate::auth::Caller;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};

/// The key of a path; runs of other tenants are not found.
pub(crate) fn key_of(caller: &Caller, text: &str) -> Result<RunKey, Problem> {
    let run = RunId::parse(text).map_err(|_| Problem::not_found("run", text))?;
    Ok(RunKey { tenant: caller.tenant.clone(), run })
}

pub(crate) async fn find(door: &Door, key: &RunKey) -> Result<StoredRun, Problem> {
    let found = door.fleet.runs(vec![key.clone()]).await?;
    found.into_iter().flatten().next().ok_or_else(|| no_run(key))
}

/// Whether a run was created now, or before by the same request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Now,
    Before,
}

pub(crate) async fn create(
    door: &Door,
    caller: &Caller,
    id: Option<RunId>,
    spec: RunSpec,
) -> Result<(RunKey, Run, Made), Problem> {
    let run = match id {
        Some(run) => run,
        None => fresh(door)?,
    };
    let key = RunKey { tenant: caller.tenant.clone(), run };
    door.admit_run(&key, spec.input.len()).await?;
    let want = Want::Create(Box::new(spec.clone()));
    let order = Order { key: key.clone(), want, by: caller.actor.clone() };
    match one(door, order).await? {
        Some(Answer::Created(Created::New(run))) => Ok((key, *run, Made::Now)),
        Some(Answer::Created(Created::Exists(stored))) if stored.run.asks_for(&spec) => {
            Ok((key, stored.run, Made::Before))
        }
        Some(Answer::Created(Created::Exists(_))) => {
            let detail = format!("there is a run {:?} that asks for something else", key.run.as_str());
            Err(Problem::new(Kind::Exists, detail))
        }
        Some(Answer::Acted(_)) | None => Err(unanswered()),
    }
}

async fn one(door: &Door, order: Order) -> Result<Option<Answer>, Problem> {
    match door.fleet.order(vec![order]).await?.pop().transpose() {
        Err(StoreError::Contention(_)) => {
            Err(Problem::new(Kind::Busy, "the run is being changed by many at once, try again"))
        }
        Err(error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_))) => Err(error.into()),
        Ok(answer) => Ok(answer),
    }
}

fn unanswered() -> Problem {
    Problem::new(Kind::Internal, "the store returned no answer for a run command")
}

fn fresh(door: &Door) -> Result<RunId, Problem> {
    let id = entropy::uuid_v7(door.clock.now(), &*door.entropy).to_string();
    RunId::parse(&id).map_err(|_| Problem::new(Kind::Internal, "a run has no id"))
}

/// Applies a command to a run: returns the run afterwards, or the refusal.
pub(crate) async fn act(door: &Door, key: &RunKey, ask: &Ask, by: Option<&str>) -> Result<Run, Problem> {
    let order = Order { key: key.clone(), want: Want::Ask(ask.clone()), by: by.map(str::to_owned) };
    match one(door, order).await? {
        Some(Answer::Acted(Acted::Done { run, told: _ })) => Ok(*run),
        Some(Answer::Acted(Acted::Refused(refusal))) => {
            counted::refused(&refusal);
            Err(refused(&refusal))
        }
        Some(Answer::Acted(Acted::NoSuchRun)) => Err(no_run(key)),
        Some(Answer::Acted(Acted::NoSuchDevice)) => Err(Problem::not_found("device", named(ask))),
        Some(Answer::Created(_)) | None => Err(unanswered()),
    }
}

fn named(ask: &Ask) -> &str {
    match ask {
        Ask::Take { device, .. } => DeviceId::as_str(device),
        Ask::Input(_) | Ask::Due | Ask::Adopt(_) => "",
    }
}
