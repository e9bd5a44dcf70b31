//! A seat of a run: who has it, who had it, and how far they came.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::status::Status;
use crate::id::{DeviceId, Name};
use crate::raw::RawJson;
use crate::status::words;
use crate::time::Timestamp;

/// The fence: grows with every assignment of a run, whichever seat it is of, and never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub i64);

impl Token {
    /// Of a run that nobody was asked about yet.
    pub const NONE: Token = Token(0);
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many former assignments a seat remembers. The log has all of them.
pub const MAX_PREVIOUS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    pub state: SeatState,
    /// Who had it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
    /// How far whoever had it has come: handed to the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Who is not asked again before the next rest is over.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub passed_over: BTreeSet<DeviceId>,
    pub reassignments: u32,
    /// Rests since somebody accepted.
    pub rounds: u32,
    /// Rests since then during which devices were only busy.
    pub waits: u32,
}

/// Written as `{"claimed": {…}}`: an output is raw JSON, which a tag beside it would have to take apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatState {
    Created,
    Assigned {
        held: Holding,
        /// Since when the time to answer counts.
        asked_at: Timestamp,
    },
    Claimed {
        held: Holding,
        claimed_at: Timestamp,
        /// Since when the time to begin counts.
        counted_from: Timestamp,
        heard_at: Timestamp,
        /// It was claimed while cut off, with the token of this former assignment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offline: Option<Token>,
    },
    Processing {
        held: Holding,
        claimed_at: Timestamp,
        started_at: Timestamp,
        heard_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offline: Option<Token>,
    },
    Reassigning {
        since: Timestamp,
        /// Nobody is asked before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest_until: Option<Timestamp>,
    },
    Completed {
        held: Holding,
        at: Timestamp,
        output: RawJson,
    },
    Failed {
        at: Timestamp,
        failure: Failure,
        /// Who had it when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<Holding>,
    },
}

/// Who has a seat, or is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub device: DeviceId,
    pub token: Token,
    pub assigned_at: Timestamp,
    /// Who gave it to the device, if it did not take it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An assignment that is over without an end of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    pub device: DeviceId,
    pub token: Token,
    pub assigned_at: Timestamp,
    pub ended_at: Timestamp,
    pub reason: Ended,
    /// In somebody's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

words! {
    /// Why an assignment is over without an end of the work.
    Ended {
        /// No answer in time, or no beginning.
        Timeout = "timeout",
        Declined = "declined",
        /// It could not do it; another one may.
        Failed = "failed",
        /// Given back, or taken back because the run has ended.
        Released = "released",
        /// For work of higher priority.
        Preempted = "preempted",
        /// It was not heard of any more.
        Heartbeat = "heartbeat",
        /// It is no longer registered.
        Gone = "gone",
        /// Another one, also cut off, had been assigned earlier.
        Superseded = "superseded",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub step: u64,
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// A word of the device's own, for what it could not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Name>,
}

words! {
    FailureKind {
        /// A device says that it cannot be done.
        Error = "error",
        /// No device is left that could be asked.
        NobodyLeft = "nobody_left",
        Cancelled = "cancelled",
        /// Another seat of the run has failed.
        OtherSeat = "other_seat",
    }
}

impl Seat {
    pub(super) fn new() -> Self {
        Self {
            state: SeatState::Created,
            previous: Vec::new(),
            progress: None,
            passed_over: BTreeSet::new(),
            reassignments: 0,
            rounds: 0,
            waits: 0,
        }
    }

    pub fn status(&self) -> Status {
        match &self.state {
            SeatState::Created => Status::Created,
            SeatState::Assigned { .. } => Status::Assigned,
            SeatState::Claimed { .. } => Status::Claimed,
            SeatState::Processing { .. } => Status::Processing,
            SeatState::Reassigning { .. } => Status::Reassigning,
            SeatState::Completed { .. } => Status::Completed,
            SeatState::Failed { .. } => Status::Failed,
        }
    }

    /// Who has it now, or is asked. Nobody once it has ended.
    pub fn held(&self) -> Option<&Holding> {
        match &self.state {
            SeatState::Assigned { held, .. }
            | SeatState::Claimed { held, .. }
            | SeatState::Processing { held, .. } => Some(held),
            SeatState::Created
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => None,
        }
    }

    /// Who has it or completed it: no other seat of the run goes to this device.
    pub fn occupant(&self) -> Option<&DeviceId> {
        match &self.state {
            SeatState::Assigned { held, .. }
            | SeatState::Claimed { held, .. }
            | SeatState::Processing { held, .. }
            | SeatState::Completed { held, .. } => Some(&held.device),
            SeatState::Created | SeatState::Reassigning { .. } | SeatState::Failed { .. } => None,
        }
    }

    /// When its holder was heard of last. Of a claim only.
    pub fn heard_at(&self) -> Option<Timestamp> {
        match &self.state {
            SeatState::Claimed { heard_at, .. } | SeatState::Processing { heard_at, .. } => Some(*heard_at),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => None,
        }
    }

    /// Its holder was heard of: kept beside the run, where it costs less. Changes nothing but a claim.
    pub fn hear(&mut self, at: Timestamp) {
        if let SeatState::Claimed { heard_at, .. } | SeatState::Processing { heard_at, .. } = &mut self.state
        {
            *heard_at = at.max(*heard_at);
        }
    }
}
