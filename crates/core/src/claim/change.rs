//! What a step changes, and what is written down about it.

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
    /// It was done before, by the same device with the same token: the answer is yes, nothing is written.
    Already,
}

/// Written together, or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// As it is now.
    pub run: Run,
    /// What happened, in order. Signs of life are not written down.
    pub log: Vec<Entry>,
    /// The run has ended with this, and somebody waits for it.
    pub told: Option<Told>,
    /// It counts only if the holders of these seats have not been heard of since these times.
    pub unheard: Vec<(u16, Timestamp)>,
}

impl Change {
    /// Devices for whom something is different now.
    pub fn devices(&self) -> BTreeSet<&DeviceId> {
        self.log.iter().filter_map(|entry| entry.device.as_ref()).collect()
    }

    /// Another step after this one, to be written with it.
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

/// A line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    /// `None`: about the run as a whole.
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
    /// How an assignment ended with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// In somebody's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who asked for it, if it was not the device itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The decision behind an assignment, or the progress at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<RawJson>,
}
