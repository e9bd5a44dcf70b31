//! The change that a step yields, and its log entries.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::row::Run;
use super::seat::{Ended, Token};
use super::status::Status;
use super::told::Told;
use super::word::Word;
use crate::id::DeviceId;
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub enum Stepped {
    Changed(Box<Change>),
    /// A repetition by the same device with the same token: succeeds, writes nothing.
    Already,
}

/// Committed atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The run after the step.
    pub run: Run,
    /// Log entries, in order. Heartbeats are not logged.
    pub log: Vec<Entry>,
    /// The outcome for the waiting execution, once the run has ended.
    pub told: Option<Told>,
    /// Precondition (optimistic concurrency): no heartbeat from the holders of these seats since these times.
    pub unheard: Vec<(u16, Timestamp)>,
}

impl Change {
    /// Devices whose assignments have changed.
    pub fn devices(&self) -> BTreeSet<&DeviceId> {
        self.log.iter().filter_map(|entry| entry.device.as_ref()).collect()
    }

    /// Appends another step, to be committed together with this one.
    #[must_use]
    pub fn then(mut self, next: Stepped) -> Self {
        if let Stepped::Changed(next) = next {
            self.log.extend(next.log);
            self.run = next.run;
            self.told = next.told.or(self.told);
            self.unheard.extend(next.unheard);
        }
        self
    }
}

/// A log entry of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    /// `None`: the entry concerns the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u16>,
    pub word: Word,
    /// `None` at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Status>,
    pub to: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The reason for which an assignment ended with this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Free text from the device or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The actor, if it is not the device itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The decision behind an assignment, or the progress at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<RawJson>,
}
