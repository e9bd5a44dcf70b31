//! `device`: a device run, whose end is the outcome of the action.
//!
//! The run's id is derived from the action's key, so that an attempt after a lost answer finds its run again,
//! and takes it over under its current lease. From then on the action awaits the run, and the write that ends
//! the run settles the action as well.
//!
//! A run over the quota `open_runs` of its tenant waits until there is capacity.

use millstream_devices::claim::{RunInput, WaitingAction};
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy::derived_event_id;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ExecutionKey, RunId, RunKey};
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use millstream_store::action_store::LeasedAction;
use millstream_store::run_service::{
    self, CreateRunReply, DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply,
};
use millstream_store::run_store::RunFilter;
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::definition::ActionTimeouts;
use millstream_workflow::machine::{ActionInput, DeviceInput};
use millstream_workflow::schedule;

use super::attempt_contract::{PerformOutcome, internal_error};
use super::emit::store_unavailable;
use super::performer::ActionPerformer;

/// Runs of an execution withdrawn at once.
const PAGE: usize = 100;

pub(crate) async fn perform_device(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &DeviceInput,
    timeouts: &ActionTimeouts,
) -> PerformOutcome {
    match create_or_adopt_run(performer, action, input).await {
        Ok(Some(done)) => done,
        Ok(None) => {
            let left = schedule::remaining_time(timeouts, action.ready_at, performer.env.now());
            PerformOutcome::Awaiting { until: left.map(|left| performer.env.now().plus(left)) }
        }
        Err(error) => PerformOutcome::Attempt(store_unavailable(&error)),
    }
}

/// `None` while another holder of the action will report the outcome.
async fn create_or_adopt_run(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &DeviceInput,
) -> StoreResult<Option<PerformOutcome>> {
    let attempt = |attempt| Ok(Some(PerformOutcome::Attempt(attempt)));
    let Some(key) = run_key_of(action) else {
        return attempt(AttemptOutcome::Pause { error: internal_error("the run has no id".to_owned()) });
    };
    let lease = &action.lease;
    let waiting = WaitingAction { key: lease.key.clone(), epoch: lease.epoch, event_id: action.event_id };
    let spec = input.to_run_spec(performer.env.options.devices.settings_of(&input.kind), waiting.clone());
    if let Some(problem) = spec.find_problems().first() {
        let error =
            ActionFailure { class: ErrorClass::Input, message: format!("device.{problem}"), status: None };
        return attempt(AttemptOutcome::Permanent { error });
    }
    if let Some(refusal) = quota_refusal(performer, &key).await? {
        return Ok(Some(PerformOutcome::over_quota(&performer.env, action, refusal)));
    }
    match run_service::create_run(performer, &key, &spec, None).await? {
        CreateRunReply::New(_) => {}
        CreateRunReply::Exists(_) => {
            match run_service::apply_to_run(performer, &key, &RunOperation::Adopt(waiting), None).await? {
                RunOperationReply::Done { told, .. } => {
                    if let Some(told) = told {
                        return attempt(told.to_attempt());
                    }
                }
                // A later attempt has it.
                RunOperationReply::Refused(refusal) => {
                    return attempt(AttemptOutcome::Transient {
                        error: internal_error(refusal.to_string()),
                        retry_after: None,
                    });
                }
                RunOperationReply::NoSuchRun | RunOperationReply::NoSuchDevice => {
                    let error = StoreError::Contention(format!("the run {key} is gone"));
                    return attempt(store_unavailable(&error));
                }
            }
        }
    }
    withdraw_if_execution_ended(performer, &lease.key.execution, &key).await?;
    Ok(None)
}

/// The quota that refuses one more run; a run that exists already is not one more.
async fn quota_refusal(performer: &ActionPerformer, key: &RunKey) -> StoreResult<Option<QuotaRefusal>> {
    let stores = &performer.env.stores;
    let admitted =
        performer.leasing.quotas.admit_row(&*stores.quotas, &key.tenant, CountedQuota::OpenRuns).await?;
    let Err(refusal) = admitted else { return Ok(None) };
    let found = stores.runs.load_runs(std::slice::from_ref(key)).await?;
    Ok(if found.into_iter().flatten().next().is_some() { None } else { Some(refusal) })
}

/// Closes the race with the withdrawal of an ended execution's runs, which may have looked before this run
/// existed. This check follows the creation, so one of the two sees the other.
async fn withdraw_if_execution_ended(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    run: &RunKey,
) -> StoreResult<()> {
    let found = performer.env.stores.execution_views.find_executions(std::slice::from_ref(execution)).await?;
    if found.into_iter().flatten().any(|view| view.state.phase.is_ended()) {
        withdraw_run(performer, execution, run).await?;
    }
    Ok(())
}

/// The same key gives the same run.
fn run_key_of(action: &LeasedAction) -> Option<RunKey> {
    let key = &action.lease.key;
    let id = format!("action:{}", derived_event_id(&format!("run {}", key.with_revision(action.revision))));
    RunId::parse(&id).ok().map(|run| RunKey { tenant: key.execution.tenant.clone(), run })
}

/// The schedule of the action is missed: withdraws its run.
pub(crate) async fn give_up_run(performer: &ActionPerformer, action: &LeasedAction) {
    let input = action.input.as_ref().map(|input| input.decode());
    let (Some(Ok(ActionInput::Device(_))), Some(key)) = (input, run_key_of(action)) else { return };
    if let Err(error) = withdraw_run(performer, &action.lease.key.execution, &key).await {
        tracing::warn!(run = %key, error = %error, "could not withdraw an obsolete run");
    }
}

/// The execution has ended: withdraws its runs from devices.
pub(crate) async fn withdraw_runs(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
) -> StoreResult<usize> {
    let filter = RunFilter { execution: Some(execution.execution.clone()), ..RunFilter::default() };
    let (mut withdrawn, mut after) = (0, None);
    loop {
        let page = performer.env.stores.run_views.list_runs(&execution.tenant, &filter, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|last| last.position);
        let open = page.into_iter().filter(|stored| !stored.run.status().is_ended());
        withdrawn += withdraw_all(performer, execution, open.map(|stored| stored.key)).await?;
        if is_last {
            return Ok(withdrawn);
        }
    }
}

async fn withdraw_run(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    run: &RunKey,
) -> StoreResult<()> {
    withdraw_all(performer, execution, [run.clone()]).await.map(|_| ())
}

/// A refused run has ended meanwhile.
async fn withdraw_all(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    runs: impl IntoIterator<Item = RunKey>,
) -> StoreResult<usize> {
    let reason = Some(format!("the execution {} no longer waits for it", execution.execution));
    let want = DeviceRunCommandKind::Ask(RunOperation::Input(RunInput::Cancel { reason }));
    let order = |key| DeviceRunCommand { key, want: want.clone(), by: Some("execution".to_owned()) };
    let orders: Vec<DeviceRunCommand> = runs.into_iter().map(order).collect();
    let answers: Vec<_> =
        run_service::perform_commands(performer, &orders).await.into_iter().collect::<StoreResult<_>>()?;
    Ok(answers.len())
}
