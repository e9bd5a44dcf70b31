//! Commands to device runs, and their answers.

use millstream_devices::claim::{RunInput, RunOutcome, RunRecord, RunRefusal, RunSpec, WaitingAction};
use millstream_model::id::{DeviceId, RunKey};

use super::environment::RunEnvironment;
use super::retry_loop::perform_commands;
use crate::run_store::StoredRun;
use crate::{StoreError, StoreResult};

/// A command to one run.
#[derive(Debug, Clone)]
pub struct DeviceRunCommand {
    pub key: RunKey,
    pub want: DeviceRunCommandKind,
    /// The actor, if it is not a device.
    pub by: Option<String>,
}

#[derive(Debug, Clone)]
pub enum DeviceRunCommandKind {
    Create(Box<RunSpec>),
    Ask(RunOperation),
}

/// A command to an existing run.
#[derive(Debug, Clone)]
pub enum RunOperation {
    Input(RunInput),
    /// A device takes a seat by itself: this one, or the first free one.
    Take {
        device: DeviceId,
        seat: Option<u16>,
    },
    /// Apply every passed deadline.
    Due,
    /// The waiting action has a new lease. If the run has ended, the caller reports its outcome.
    Adopt(WaitingAction),
}

#[derive(Debug, Clone)]
pub enum RunReply {
    Created(CreateRunReply),
    Acted(RunOperationReply),
}

#[derive(Debug, Clone)]
pub enum CreateRunReply {
    New(Box<RunRecord>),
    /// A run has this key; it may be the same.
    Exists(Box<StoredRun>),
}

#[derive(Debug, Clone)]
pub enum RunOperationReply {
    /// Written, or done before: the current run, and its outcome for the waiting action, if the caller
    /// adopted it.
    Done {
        run: Box<RunRecord>,
        told: Option<RunOutcome>,
    },
    Refused(RunRefusal),
    NoSuchRun,
    NoSuchDevice,
}

/// Creates one run. For many, use [`super::perform_commands`].
pub async fn create_run(
    around: &dyn RunEnvironment,
    key: &RunKey,
    spec: &RunSpec,
    by: Option<&str>,
) -> StoreResult<CreateRunReply> {
    let want = DeviceRunCommandKind::Create(Box::new(spec.clone()));
    match perform_one(around, key, want, by).await? {
        RunReply::Created(created) => Ok(created),
        RunReply::Acted(_) => Err(unexpected_reply()),
    }
}

/// Applies one command. For many, use [`super::perform_commands`].
pub async fn apply_to_run(
    around: &dyn RunEnvironment,
    key: &RunKey,
    ask: &RunOperation,
    by: Option<&str>,
) -> StoreResult<RunOperationReply> {
    match perform_one(around, key, DeviceRunCommandKind::Ask(ask.clone()), by).await? {
        RunReply::Acted(acted) => Ok(acted),
        RunReply::Created(_) => Err(unexpected_reply()),
    }
}

async fn perform_one(
    around: &dyn RunEnvironment,
    key: &RunKey,
    want: DeviceRunCommandKind,
    by: Option<&str>,
) -> StoreResult<RunReply> {
    let order = DeviceRunCommand { key: key.clone(), want, by: by.map(str::to_owned) };
    let answers = perform_commands(around, &[order]).await;
    answers.into_iter().next().unwrap_or_else(|| Err(unexpected_reply()))
}

/// Unreachable: every command is answered in its own kind.
fn unexpected_reply() -> StoreError {
    StoreError::Unavailable("a command was not answered".to_owned())
}
