//! What is asked for, and what is answered.

use millstream_core::claim::{Input, Refusal, Run, RunSpec, Told, WaitingAction};
use millstream_core::id::{DeviceId, RunKey};

use super::around::Around;
use super::rounds::perform;
use crate::run_store::StoredRun;
use crate::{Result, StoreError};

/// Something to be done to one run.
#[derive(Debug, Clone)]
pub struct Order {
    pub key: RunKey,
    pub want: Want,
    /// Who asks, if it is not a device.
    pub by: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Want {
    Create(Box<RunSpec>),
    Ask(Ask),
}

/// What is asked of a run that exists.
#[derive(Debug, Clone)]
pub enum Ask {
    Input(Input),
    /// A device takes a seat by itself: this one, or the first that nobody has.
    Take {
        device: DeviceId,
        seat: Option<u16>,
    },
    /// Everything whose time has come.
    Due,
    /// The action that waits is leased anew. If the run has ended, whoever asks tells it.
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
    /// There is one by this key, which may be the same.
    Exists(Box<StoredRun>),
}

#[derive(Debug, Clone)]
pub enum Acted {
    /// Written, or done before: the run as it is now, and what the one who waits for it is to be told, if whoever
    /// asked does that.
    Done {
        run: Box<Run>,
        told: Option<Told>,
    },
    Refused(Refusal),
    NoSuchRun,
    NoSuchDevice,
}

/// One run. Whoever has many makes orders.
pub async fn create(around: &dyn Around, key: &RunKey, spec: &RunSpec, by: Option<&str>) -> Result<Created> {
    let want = Want::Create(Box::new(spec.clone()));
    match one(around, key, want, by).await? {
        Answer::Created(created) => Ok(created),
        Answer::Acted(_) => Err(misunderstood()),
    }
}

/// On one run. Whoever has many makes orders.
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

/// Nobody sees it: every order is answered in its own kind.
fn misunderstood() -> StoreError {
    StoreError::Unavailable("an order was not answered".to_owned())
}
