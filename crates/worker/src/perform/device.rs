//! `device`: a device run, whose end is the outcome of the action.
//!
//! The run's id is derived from the action's key, so that an attempt after a lost answer finds its run again,
//! and takes it over under its current lease. From then on the action awaits the run, and the write that ends
//! the run settles the action as well.
//!
//! A run over the quota `open_runs` of its tenant waits until there is capacity.

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::claim::{Input, WaitingAction};
use millstream_core::definition::Timeouts;
use millstream_core::entropy::derived_event_id;
use millstream_core::id::{ExecutionKey, RunId, RunKey};
use millstream_core::machine::{ActionInput, DeviceInput};
use millstream_core::quota::{CountedQuota, QuotaRefusal};
use millstream_core::schedule;
use millstream_store::action_store::LeasedAction;
use millstream_store::run_store::RunFilter;
use millstream_store::running::{self, Acted, Ask, Created, Order, Want};
use millstream_store::{Result, StoreError};

use super::emit::unavailable;
use super::errand::Done;
use super::outcome::internal;
use crate::worker::Worker;

/// Runs of an execution withdrawn at once.
const PAGE: usize = 100;

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    input: &DeviceInput,
    timeouts: &Timeouts,
) -> Done {
    match begin(worker, action, input).await {
        Ok(Some(done)) => done,
        Ok(None) => {
            let left = schedule::left(timeouts, action.ready_at, worker.now());
            Done::Awaiting { until: left.map(|left| worker.now().plus(left)) }
        }
        Err(error) => Done::Attempt(unavailable(&error)),
    }
}

/// `None` while another holder of the action will report the outcome.
async fn begin(worker: &Worker, action: &LeasedAction, input: &DeviceInput) -> Result<Option<Done>> {
    let attempt = |attempt| Ok(Some(Done::Attempt(attempt)));
    let Some(key) = key_of(action) else {
        return attempt(Attempt::Pause { error: internal("the run has no id".to_owned()) });
    };
    let lease = &action.lease;
    let waiting = WaitingAction { key: lease.key.clone(), epoch: lease.epoch, event_id: action.event_id };
    let spec = input.run(worker.options.devices.of(&input.kind), waiting.clone());
    if let Some(problem) = spec.problems().first() {
        let error =
            ActionError { class: ErrorClass::Input, message: format!("device.{problem}"), status: None };
        return attempt(Attempt::Permanent { error });
    }
    if let Some(refusal) = refusal(worker, &key).await? {
        return Ok(Some(Done::over_quota(worker, action, refusal)));
    }
    match running::create(worker, &key, &spec, None).await? {
        Created::New(_) => {}
        Created::Exists(_) => match running::act(worker, &key, &Ask::Adopt(waiting), None).await? {
            Acted::Done { told, .. } => {
                if let Some(told) = told {
                    return attempt(told.attempt());
                }
            }
            // A later attempt has it.
            Acted::Refused(refusal) => {
                return attempt(Attempt::Transient {
                    error: internal(refusal.to_string()),
                    retry_after: None,
                });
            }
            Acted::NoSuchRun | Acted::NoSuchDevice => {
                let error = StoreError::Contention(format!("the run {key} is gone"));
                return attempt(unavailable(&error));
            }
        },
    }
    follow_execution(worker, &lease.key.execution, &key).await?;
    Ok(None)
}

/// The quota that refuses one more run; a run that exists already is not one more.
async fn refusal(worker: &Worker, key: &RunKey) -> Result<Option<QuotaRefusal>> {
    let stores = &worker.deps.stores;
    let admitted = worker.quotas.admit_row(&*stores.quotas, &key.tenant, CountedQuota::OpenRuns).await?;
    let Err(refusal) = admitted else { return Ok(None) };
    let found = stores.runs.load_runs(std::slice::from_ref(key)).await?;
    Ok(if found.into_iter().flatten().next().is_some() { None } else { Some(refusal) })
}

/// Closes the race with the withdrawal of an ended execution's runs, which may have looked before this run
/// existed. This check follows the creation, so one of the two sees the other.
async fn follow_execution(worker: &Worker, execution: &ExecutionKey, run: &RunKey) -> Result<()> {
    let found = worker.deps.stores.execution_views.executions(std::slice::from_ref(execution)).await?;
    if found.into_iter().flatten().any(|view| view.state.phase.is_ended()) {
        withdraw_one(worker, execution, run).await?;
    }
    Ok(())
}

/// The same key gives the same run.
fn key_of(action: &LeasedAction) -> Option<RunKey> {
    let key = &action.lease.key;
    let id = format!("action:{}", derived_event_id(&format!("run {}", key.with_revision(action.revision))));
    RunId::parse(&id).ok().map(|run| RunKey { tenant: key.execution.tenant.clone(), run })
}

/// The schedule of the action is missed: withdraws its run.
pub(crate) async fn give_up(worker: &Worker, action: &LeasedAction) {
    let input = action.input.as_ref().map(|input| input.decode());
    let (Some(Ok(ActionInput::Device(_))), Some(key)) = (input, key_of(action)) else { return };
    if let Err(error) = withdraw_one(worker, &action.lease.key.execution, &key).await {
        tracing::warn!(run = %key, error = %error, "could not withdraw an obsolete run");
    }
}

/// The execution has ended: withdraws its runs from devices.
pub(crate) async fn withdraw(worker: &Worker, execution: &ExecutionKey) -> Result<usize> {
    let filter = RunFilter { execution: Some(execution.execution.clone()), ..RunFilter::default() };
    let (mut withdrawn, mut after) = (0, None);
    loop {
        let page = worker.deps.stores.run_views.list_runs(&execution.tenant, &filter, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|last| last.position);
        let open = page.into_iter().filter(|stored| !stored.run.status().is_ended());
        withdrawn += withdraw_all(worker, execution, open.map(|stored| stored.key)).await?;
        if is_last {
            return Ok(withdrawn);
        }
    }
}

async fn withdraw_one(worker: &Worker, execution: &ExecutionKey, run: &RunKey) -> Result<()> {
    withdraw_all(worker, execution, [run.clone()]).await.map(|_| ())
}

/// A refused run has ended meanwhile.
async fn withdraw_all(
    worker: &Worker,
    execution: &ExecutionKey,
    runs: impl IntoIterator<Item = RunKey>,
) -> Result<usize> {
    let reason = Some(format!("the execution {} no longer waits for it", execution.execution));
    let want = Want::Ask(Ask::Input(Input::Cancel { reason }));
    let order = |key| Order { key, want: want.clone(), by: Some("execution".to_owned()) };
    let orders: Vec<Order> = runs.into_iter().map(order).collect();
    let answers: Vec<_> = running::perform(worker, &orders).await.into_iter().collect::<Result<_>>()?;
    Ok(answers.len())
}
