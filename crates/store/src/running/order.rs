//! Commands to device runs, and their answers.

use millstream_core::claim::{Input, Refusal, Run, RunSpec, Told, WaitingAction};
use millstream_core::id::{DeviceId, RunKey};

use super::around::Around;
use super::rounds::perform;
use crate::run_store::StoredRun;
use crate::{Result, StoreError};

/// A command to one run.
#[derive(Debug, Clone)]
pub struct Order {
    pub key: RunKey,
    pub want: Want,
    /// The actor, if it is not a device.
    pub by: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Want {
    Create(Box<RunSpec>),
    Ask(Ask),
}

/// A command to an existing run.
#[derive(Debug, Clone)]
pub enum Ask {
    Input(Input),
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
pub enum Answer {
    Created(Created),
    Acted(Acted),
}

#[derive(Debug, Clone)]
pub enum Created {
    New(Box<Run>),
    /// A run has this key; it may be the same.
    Exists(Box<StoredRun>),
}

#[derive(Debug, Clone)]
pub enum Acted {
    /// Written, or done before: the current run, and its outcome for the waiting action, if the caller
    /// adopted it.
    Done {
        run: Box<Run>,
        told: Option<Told>,
    },
    Refused(Refusal),
    NoSuchRun,
    NoSuchDevice,
}

/// Creates one run. For many, use [`perform`](super::perform).
pub async fn create(around: &dyn Around, key: &RunKey, spec: &RunSpec, by: Option<&str>) -> Result<Created> {
    let want = Want::Create(Box::new(spec.clone()));
    match one(around, key, want, by).await? {
        Answer::Created(created) => Ok(created),
        Answer::Acted(_) => Err(misunderstood()),
    }
}

/// Applies one command. For many, use [`perform`](super::perform).
pub async fn act(around: &dyn Around, key: &RunKey, ask: &Ask, by: Option<&str>) -> Result<Acted> {
    match one(around, key, Want::Ask(ask.clone()), by).await? {
        Answer::Acted(acted) => Ok(acted),
        Answer::Created(_) => Err(misunderstood()),
    }
}

async fn one(around: &dyn Around, key: &RunKey, want: Want, by: Option<&str>) -> Result<Answer> {
    let order = Order { key: key.clone(), want, by: by.map(str::to_owned) };
    let answers = perform(around, &[order]).await;
    answers.into_iter().next().unwrap_or_else(|| Err(misunderstood()))
}

/// Unreachable: every command is answered in its own kind.
fn misunderstood() -> StoreError {
    StoreError::Unavailable("a command was not answered".to_owned())
}
