//! Runs of devices: create, find, and act.

use millstream_devices::claim::{RunRecord, RunSpec};
use millstream_model::entropy;
use millstream_model::id::{DeviceId, RunId, RunKey};
use millstream_model::quota::CountedQuota;
use millstream_store::StoreError;
use millstream_store::run_service::{
    CreateRunReply, DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply, RunReply,
};
use millstream_store::run_store::StoredRun;

use super::DeviceDeps;
use super::refusals::{no_run, run_refusal};
use super::run_metrics;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The key of a path; runs of other tenants are not found.
pub(crate) fn parse_run_key(caller: &TenantCaller, text: &str) -> Result<RunKey, RequestRefusal> {
    let run = RunId::parse(text).map_err(|_| RequestRefusal::not_found("run", text))?;
    Ok(RunKey { tenant: caller.tenant.clone(), run })
}

pub(crate) async fn find_run(deps: &DeviceDeps, key: &RunKey) -> Result<StoredRun, RequestRefusal> {
    let found = deps.fleet.load_runs(vec![key.clone()]).await?;
    found.into_iter().flatten().next().ok_or_else(|| no_run(key))
}

/// Whether a run was created now, or before by the same request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunCreated {
    Now,
    Before,
}

pub(crate) async fn create_run(
    deps: &DeviceDeps,
    caller: &TenantCaller,
    id: Option<RunId>,
    spec: RunSpec,
) -> Result<(RunKey, RunRecord, RunCreated), RequestRefusal> {
    let run = match id {
        Some(run) => run,
        None => new_run_id(deps)?,
    };
    let key = RunKey { tenant: caller.tenant.clone(), run };
    admit_run(deps, &key, spec.input.len()).await?;
    let want = DeviceRunCommandKind::Create(Box::new(spec.clone()));
    let order = DeviceRunCommand { key: key.clone(), want, by: caller.actor.clone() };
    match apply_command(deps, order).await? {
        Some(RunReply::Created(CreateRunReply::New(run))) => Ok((key, *run, RunCreated::Now)),
        Some(RunReply::Created(CreateRunReply::Exists(stored))) if stored.run.asks_for(&spec) => {
            Ok((key, stored.run, RunCreated::Before))
        }
        Some(RunReply::Created(CreateRunReply::Exists(_))) => {
            let detail = format!("there is a run {:?} that asks for something else", key.run.as_str());
            Err(RequestRefusal::new(RefusalKind::Exists, detail))
        }
        Some(RunReply::Acted(_)) | None => Err(unanswered_command()),
    }
}

/// Whether the tenant may have one more open run; an existing one may be requested again.
async fn admit_run(deps: &DeviceDeps, key: &RunKey, bytes: usize) -> Result<(), RequestRefusal> {
    let RunKey { tenant, .. } = key;
    let admitted = async {
        deps.admission.admit_events(tenant, 1, bytes).await?;
        deps.admission.quotas.admit_rows(tenant, CountedQuota::OpenRuns, 1).await
    };
    let Err(refusal) = admitted.await else { return Ok(()) };
    let known = deps.fleet.load_runs(vec![key.clone()]).await?;
    if known.into_iter().flatten().next().is_some() { Ok(()) } else { Err(refusal) }
}

async fn apply_command(
    deps: &DeviceDeps,
    order: DeviceRunCommand,
) -> Result<Option<RunReply>, RequestRefusal> {
    match deps.fleet.apply_commands(vec![order]).await?.pop().transpose() {
        Err(StoreError::Contention(_)) => {
            Err(RequestRefusal::new(RefusalKind::Busy, "the run is being changed by many at once, try again"))
        }
        Err(error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_))) => Err(error.into()),
        Ok(answer) => Ok(answer),
    }
}

fn unanswered_command() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Internal, "the store returned no answer for a run command")
}

fn new_run_id(deps: &DeviceDeps) -> Result<RunId, RequestRefusal> {
    let id = entropy::uuid_v7(deps.clock.now(), &*deps.entropy).to_string();
    RunId::parse(&id).map_err(|_| RequestRefusal::new(RefusalKind::Internal, "a run has no id"))
}

/// Applies a command to a run: returns the run afterwards, or the refusal.
pub(crate) async fn apply_to_run(
    deps: &DeviceDeps,
    key: &RunKey,
    ask: &RunOperation,
    by: Option<&str>,
) -> Result<RunRecord, RequestRefusal> {
    let order = DeviceRunCommand {
        key: key.clone(),
        want: DeviceRunCommandKind::Ask(ask.clone()),
        by: by.map(str::to_owned),
    };
    match apply_command(deps, order).await? {
        Some(RunReply::Acted(RunOperationReply::Done { run, told: _ })) => Ok(*run),
        Some(RunReply::Acted(RunOperationReply::Refused(refusal))) => {
            run_metrics::count_refusal(&refusal);
            Err(run_refusal(&refusal))
        }
        Some(RunReply::Acted(RunOperationReply::NoSuchRun)) => Err(no_run(key)),
        Some(RunReply::Acted(RunOperationReply::NoSuchDevice)) => {
            Err(RequestRefusal::not_found("device", named_device(ask)))
        }
        Some(RunReply::Created(_)) | None => Err(unanswered_command()),
    }
}

fn named_device(ask: &RunOperation) -> &str {
    match ask {
        RunOperation::Take { device, .. } => DeviceId::as_str(device),
        RunOperation::Input(_) | RunOperation::Due | RunOperation::Adopt(_) => "",
    }
}
