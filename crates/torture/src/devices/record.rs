//! What the devices did and what they were told: the one witness that is not the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use millstream_core::claim::Word;

/// One request about one seat. Times are milliseconds of one clock, which all devices share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub device: String,
    pub run: String,
    pub seat: u16,
    /// That it named; 0 where it had none.
    pub token: i64,
    pub word: Word,
    pub sent: i64,
    /// When the answer was there, or nobody waited for it any more.
    pub answered: i64,
    pub told: Told,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Done, now or before; the token by which the device has the seat then.
    Done { token: Option<i64> },
    /// Refused, with the word of the problem.
    Refused { kind: String },
    /// Nothing, or nothing certain: it may be done or not.
    Nothing,
}

/// The kind of refusal of a network that takes nothing: nobody else has seen it.
pub const UNSENT: &str = "unsent";

/// Shared by everybody who sends requests.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<Written>>);

#[derive(Debug, Clone, Default)]
pub struct Written {
    pub acts: Vec<Act>,
    /// Runs whose creation was acknowledged.
    pub runs: BTreeSet<String>,
    /// Executions whose start was acknowledged.
    pub executions: BTreeSet<String>,
    /// What was done to devices, runs and processes, by name.
    pub faults: BTreeMap<&'static str, u64>,
    pub requests: u64,
    pub unanswered: u64,
    /// 429 and 5xx.
    pub put_off: u64,
    /// Answers that no device should ever get, as text.
    pub odd: Vec<String>,
    /// When nobody was there who looks after runs, or the machine was too busy to answer anybody.
    pub outages: Vec<(i64, i64)>,
}

impl Record {
    pub fn write(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An act that is about to be sent, and where it is written.
    pub fn begin(&self, act: Act) -> usize {
        let mut written = self.write();
        written.acts.push(act);
        written.acts.len() - 1
    }

    /// What it was told, and about which seat.
    pub fn end(&self, at: usize, seat: u16, told: Told) {
        if let Some(act) = self.write().acts.get_mut(at) {
            (act.seat, act.answered, act.told) = (seat, now(), told);
        }
    }

    pub fn fault(&self, name: &'static str) {
        *self.write().faults.entry(name).or_default() += 1;
    }
}

/// Milliseconds since 1970, by the clock of this machine, which the processes under test have too.
pub fn now() -> i64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
