//! Runs of devices: rows with a version, written only by whoever has seen the last one.
//!
//! What becomes of a run is decided in [`millstream_core::claim`]; here it is written if nobody wrote before. The
//! changes of a [`Unit`] are written together or not at all. What ends a run settles the action that waits
//! for it, in the same transaction.
//!
//! Signs of life do not make a version: [`RunStore::beat_seats`] moves times beside the run, and whoever loads
//! it sees them. A change that rests on somebody's silence says so ([`RunWrite::unheard`]), and does not count if
//! they were heard of meanwhile.

use std::collections::BTreeMap;

use millstream_core::claim::{Entry, Occupied, Progress, Run, Status, Token};
use millstream_core::id::{DeviceId, DeviceKey, ExecutionId, Name, RunKey, TenantId};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;

use crate::Result;
use crate::action_store::{SettleVerdict, Settlement};

#[async_trait::async_trait]
pub trait RunStore: Send + Sync {
    /// In the order asked; `None` where there is no such run.
    async fn load_runs(&self, keys: &[RunKey]) -> Result<Vec<Option<StoredRun>>>;

    /// Writes units, in one transaction, one verdict per unit, in order. A unit that comes later sees what the ones
    /// before it wrote, and does not count if it expects what one that does not count would have left. Runs are locked
    /// before everything else, in the order of their keys.
    ///
    /// A settlement whose lease has passed on (its execution was cancelled, say) is stale and does not keep the run
    /// from ending.
    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Result<CommittedRuns>;

    /// Hears from holders of claims, and keeps what progress they tell, in one statement; in the order given.
    /// [`SeatPulse::Lost`] also answers progress of a seat that is not being worked on. What is heard never goes
    /// back in time.
    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Result<Vec<SeatPulse>>;

    /// Runs of all tenants with a seat whose time has come, each once, those first that are due longest.
    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunKey>>;
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub key: RunKey,
    /// Raised by every commit, from 1.
    pub version: i64,
    /// Its place in lists: later ones have larger ones.
    pub position: i64,
    pub updated_at: Timestamp,
    pub run: Run,
}

/// What is written together or not at all. No run occurs twice in it.
#[derive(Debug, Clone)]
pub struct Unit {
    pub writes: Vec<RunWrite>,
}

impl From<RunWrite> for Unit {
    fn from(write: RunWrite) -> Self {
        Self { writes: vec![write] }
    }
}

#[derive(Debug, Clone)]
pub struct RunWrite {
    pub key: RunKey,
    pub expected: Expected,
    pub run: Run,
    pub log: Vec<Entry>,
    /// Seats whose holders must not have been heard of after these times.
    pub unheard: Vec<(u16, Timestamp)>,
    /// Of a run that ends and that an action waits for.
    pub settlement: Option<Settlement>,
}

/// What must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No run by this key.
    Nothing,
    Version(i64),
}

#[derive(Debug, Clone, Default)]
pub struct CommittedRuns {
    /// In the order of the units.
    pub verdicts: Vec<RunVerdict>,
    /// Actions that became ready because of settlements: ring.
    pub unleased: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunVerdict {
    /// Written. What became of its settlements, in order.
    Done { settled: Vec<SettleVerdict> },
    /// Nothing of it was written: this run stands in the way, as it is now (`None`: there is none). It is of the
    /// moment after the commit, so it may have gone on.
    Conflict { key: RunKey, current: Option<Box<StoredRun>> },
}

/// A sign of life of whoever has a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatBeat {
    pub run: RunKey,
    pub seat: u16,
    pub device: DeviceId,
    pub token: Token,
    pub progress: Option<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatPulse {
    /// The claim holds, and is next looked at then.
    Held {
        until: Timestamp,
        pause: PauseState,
    },
    Lost,
}

/// Looking at runs.
#[async_trait::async_trait]
pub trait RunViews: Send + Sync {
    /// Newest first, beginning after the position `after` (at smaller ones).
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredRun>>;

    /// The seats that each of these devices has or is asked about, in the order asked: the most important first, and
    /// of equal ones the one that was assigned first. No more than `limit` of each.
    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> Result<Vec<Vec<Occupied>>>;

    /// What happened to a run, in order, after the position `after`.
    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> Result<Vec<RunEntry>>;

    /// The last that happened to a run, in order.
    async fn run_log_end(&self, run: &RunKey, limit: usize) -> Result<Vec<RunEntry>>;

    /// How many devices there are, and how many of them were heard of since `since`; and the seats that somebody has to
    /// look at sooner or later, by status. Of all tenants.
    async fn count_fleet(&self, since: Timestamp) -> Result<FleetCounts>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetCounts {
    pub devices: u64,
    pub heard: u64,
    pub seats: BTreeMap<Status, u64>,
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub status: Option<Status>,
    pub kind: Option<Name>,
    /// Those that this execution waits or waited for.
    pub execution: Option<ExecutionId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEntry {
    /// Its place in the log. Later entries of the run have larger ones.
    pub position: i64,
    pub entry: Entry,
}
