//! Requests of the devices and their answers: the one source that is independent of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use millstream_devices::claim::RunInputKind;

/// One request about one seat. Times are milliseconds of one clock, which all devices share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAct {
    pub device: String,
    pub run: String,
    pub seat: u16,
    /// Token in the request; 0 if none.
    pub token: i64,
    pub word: RunInputKind,
    pub sent: i64,
    /// When the answer arrived, or waiting for it ended.
    pub answered: i64,
    pub told: DeviceAnswer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceAnswer {
    /// Accepted, now or before; contains the token by which the device has the seat then.
    Done { token: Option<i64> },
    /// Refused, with the type of the problem.
    Refused { kind: String },
    /// No definite answer: the operation may be done or not.
    Nothing,
}

/// Refusal kind of a network that drops requests: the engine has not seen the request.
pub const UNSENT: &str = "unsent";

/// Shared by all tasks that send requests.
#[derive(Debug, Clone, Default)]
pub struct DeviceRecord(Arc<Mutex<DeviceRecordState>>);

#[derive(Debug, Clone, Default)]
pub struct DeviceRecordState {
    pub acts: Vec<DeviceAct>,
    /// Runs whose creation was acknowledged.
    pub runs: BTreeSet<String>,
    /// Executions whose start was acknowledged.
    pub executions: BTreeSet<String>,
    /// Faults of devices, runs and processes, by name.
    pub faults: BTreeMap<&'static str, u64>,
    pub requests: u64,
    pub unanswered: u64,
    /// 429 and 5xx.
    pub put_off: u64,
    /// Answers that no device should ever get, as text.
    pub odd: Vec<String>,
    /// Periods in which no process monitored runs, or the machine was too busy to answer.
    pub outages: Vec<(i64, i64)>,
}

impl DeviceRecord {
    pub fn lock_state(&self) -> MutexGuard<'_, DeviceRecordState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request before it is sent; returns its index.
    pub fn begin_act(&self, act: DeviceAct) -> usize {
        let mut written = self.lock_state();
        written.acts.push(act);
        written.acts.len() - 1
    }

    /// Records the answer, and the seat that it is about.
    pub fn end_act(&self, at: usize, seat: u16, told: DeviceAnswer) {
        if let Some(act) = self.lock_state().acts.get_mut(at) {
            (act.seat, act.answered, act.told) = (seat, unix_millis(), told);
        }
    }

    pub fn record_fault(&self, name: &'static str) {
        *self.lock_state().faults.entry(name).or_default() += 1;
    }
}

/// Milliseconds since 1970, by the clock of this machine, which the processes under test share.
pub fn unix_millis() -> i64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
