//! Device runs: versioned rows with optimistic concurrency.
//!
//! [`millstream_devices::claim`] decides changes of a run; this store writes them if the run still has the
//! expected version. The changes of a [`RunUnit`] are written together or not at all. A change that ends a run
//! settles the action that waits for it, in the same transaction.
//!
//! Heartbeats do not raise the version: [`RunStore::record_seat_heartbeats`] moves times beside the run, and loading
//! merges them. A change that is based on a holder's silence names it ([`RunWrite::unheard`]), and is refused
//! if a heartbeat arrived meanwhile.

use std::collections::BTreeMap;

use millstream_devices::claim::{OccupiedSeat, RunLogEntry, RunRecord, SeatProgress, SeatStatus, SeatToken};
use millstream_model::id::{DeviceId, DeviceKey, ExecutionId, Name, RunKey, TenantId};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;

use crate::StoreResult;
use crate::action_store::{SettleVerdict, Settlement};

#[async_trait::async_trait]
pub trait RunStore: Send + Sync {
    /// In the order asked; `None` where there is no such run.
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>>;

    /// Writes units, each in one transaction, one verdict per unit, in order. A later unit sees the writes of
    /// earlier ones, and is refused if it expects the version of a refused unit. Runs are locked before
    /// everything else, in the order of their keys.
    ///
    /// A settlement whose lease is lost (its execution was cancelled, say) is stale and does not keep the run
    /// from ending.
    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns>;

    /// Records heartbeats of claim holders and their progress, in one statement; in the order given.
    /// [`SeatPulse::Lost`] also answers progress of a seat that is not being worked on. Recorded times never
    /// go back.
    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>>;

    /// Runs of all tenants with a seat whose deadline has passed, each once, the longest overdue first.
    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>>;
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub key: RunKey,
    /// Raised by every commit, from 1.
    pub version: i64,
    /// Position in lists: later runs have larger ones.
    pub position: i64,
    pub updated_at: Timestamp,
    pub run: RunRecord,
}

/// Writes that are committed together or not at all. No run occurs twice in it.
#[derive(Debug, Clone)]
pub struct RunUnit {
    pub writes: Vec<RunWrite>,
}

impl From<RunWrite> for RunUnit {
    fn from(write: RunWrite) -> Self {
        Self { writes: vec![write] }
    }
}

#[derive(Debug, Clone)]
pub struct RunWrite {
    pub key: RunKey,
    pub expected: ExpectedVersion,
    pub run: RunRecord,
    pub log: Vec<RunLogEntry>,
    /// Seats whose holders must not have a heartbeat after these times.
    pub unheard: Vec<(u16, Timestamp)>,
    /// Of a run that ends and that an action waits for.
    pub settlement: Option<Settlement>,
}

/// The precondition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// No run has this key.
    Nothing,
    Version(i64),
}

#[derive(Debug, Clone, Default)]
pub struct CommittedRuns {
    /// In the order of the units.
    pub verdicts: Vec<RunVerdict>,
    /// Actions that became ready because of settlements: ring the doorbell.
    pub unleased: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunVerdict {
    /// Written, with the verdicts on its settlements, in order.
    Done { settled: Vec<SettleVerdict> },
    /// Nothing of it was written: this run conflicts, in its current state (`None`: there is none). It is
    /// read after the commit, so it may have changed again.
    Conflict { key: RunKey, current: Option<Box<StoredRun>> },
}

/// A heartbeat of the holder of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatHeartbeat {
    pub run: RunKey,
    pub seat: u16,
    pub device: DeviceId,
    pub token: SeatToken,
    pub progress: Option<SeatProgress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatPulse {
    /// The claim holds until this deadline.
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
    ) -> StoreResult<Vec<StoredRun>>;

    /// The seats that each of these devices holds or is offered, in the order asked: by priority, then the
    /// one assigned first. At most `limit` of each.
    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> StoreResult<Vec<Vec<OccupiedSeat>>>;

    /// Log entries of a run, in order, after the position `after`.
    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> StoreResult<Vec<RunEntry>>;

    /// The last log entries of a run, in order.
    async fn run_log_end(&self, run: &RunKey, limit: usize) -> StoreResult<Vec<RunEntry>>;

    /// How many devices exist, and how many had a heartbeat since `since`; and the seats with a deadline, by
    /// status. Of all tenants.
    async fn count_fleet(&self, since: Timestamp) -> StoreResult<FleetCounts>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetCounts {
    pub devices: u64,
    pub heard: u64,
    pub seats: BTreeMap<SeatStatus, u64>,
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub status: Option<SeatStatus>,
    pub kind: Option<Name>,
    /// Runs that this execution waits or waited for.
    pub execution: Option<ExecutionId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEntry {
    /// Position in the log. Later entries of the run have larger ones.
    pub position: i64,
    pub entry: RunLogEntry,
}
