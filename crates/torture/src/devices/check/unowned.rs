//! D4: no seat lacks an owner for longer than the detection time: the allowed silence of its holder plus one
//! interval of the monitor.
//!
//! Every wait is measured against its own limit: a seat without a holder although a device could take it, the
//! silence of a holder until the next holder, an unanswered offer, a claim without a start, a rest. No device
//! is chosen while a run is paused, and none can be while all are busy.

use std::time::Duration;

use millstream_devices::claim::{RunAssignMode, RunInputKind, RunLogEntry, SeatStatus};
use millstream_model::time::Timestamp;

use super::evidence::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// The seat had no holder.
    Open,
    /// From the last sign of life of its holder to the next holder.
    Silent,
    /// A device was asked and did not answer.
    Unanswered,
    /// A device had the seat and did not start.
    NotBegun,
    /// All devices had declined.
    Rest,
}

impl WaitKind {
    pub const ALL: &'static [WaitKind] =
        &[Self::Open, Self::Silent, Self::Unanswered, Self::NotBegun, Self::Rest];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Silent => "silent holder",
            Self::Unanswered => "no answer",
            Self::NotBegun => "not begun",
            Self::Rest => "rest",
        }
    }
}

/// One wait, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnownedWait {
    pub run: String,
    pub seat: u16,
    pub kind: WaitKind,
    pub from: i64,
    pub until: i64,
    /// What the settings allow, without the monitor's interval.
    pub allowed: i64,
}

impl UnownedWait {
    pub fn wait_millis(&self) -> i64 {
        self.until - self.from
    }

    /// The part beyond the limit of the settings.
    pub fn excess_millis(&self) -> i64 {
        (self.wait_millis() - self.allowed).max(0)
    }
}

pub type UnownedWaits = Vec<UnownedWait>;

pub(super) fn check_waits(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    let slack = evidence.bounds.monitor + evidence.bounds.allowance;
    let too_long =
        |wait: &UnownedWait| wait.excess_millis() > slack + outage_millis(&evidence.clients.outages, wait);
    let all = collect_waits(&evidence.runs);
    let found = all.iter().filter(|wait| too_long(wait)).map(|wait| {
        let UnownedWait { seat, kind, from, allowed, .. } = wait;
        let (name, length) = (kind.name(), wait.wait_millis());
        DeviceFinding::new_finding(
            DeviceRule::Unowned,
            &wait.run,
            format!(
                "seat {seat}: {name} for {length} ms from {from} on; {allowed} and {slack} ms are allowed"
            ),
        )
    });
    found.collect()
}

/// The part of a wait in which no process could monitor runs.
fn outage_millis(outages: &[(i64, i64)], wait: &UnownedWait) -> i64 {
    outages.iter().map(|(from, until)| (wait.until.min(*until) - wait.from.max(*from)).max(0)).sum()
}

/// All waits in the logs.
pub fn collect_waits(runs: &[RunSeen]) -> UnownedWaits {
    let of_seat = |run: &RunSeen, number: u16| {
        let mut walk = LogWalk::for_seat(run, number);
        for entry in &run.log {
            match entry.seat {
                None => walk.run(entry),
                Some(seat) if seat == number => walk.apply_entry(entry),
                Some(_) => {}
            }
        }
        walk.waits
    };
    let seats = |run: &RunSeen| u16::try_from(run.seats.len()).unwrap_or(u16::MAX);
    runs.iter().flat_map(|run| (0..seats(run)).flat_map(move |number| of_seat(run, number))).collect()
}

/// Position of the walk through a log, for one seat.
struct LogWalk<'a> {
    run: &'a RunSeen,
    number: u16,
    waits: UnownedWaits,
    status: SeatStatus,
    is_paused: bool,
    is_resting: bool,
    /// All devices were busy and none has accepted since: the log does not repeat that they are still busy.
    is_queued: bool,
    /// Since when a device is wanted.
    open: Option<i64>,
    /// Since when the last holder is silent.
    silent: Option<i64>,
    /// Start of the time limit to answer or to start.
    counted: i64,
    rest: Option<(i64, i64)>,
    rounds: u32,
}

fn as_millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

impl<'a> LogWalk<'a> {
    fn for_seat(run: &'a RunSeen, number: u16) -> Self {
        Self {
            run,
            number,
            waits: Vec::new(),
            status: SeatStatus::Created,
            is_paused: false,
            is_resting: false,
            is_queued: false,
            open: None,
            silent: None,
            counted: 0,
            rest: None,
            rounds: 0,
        }
    }

    fn push_wait(&mut self, kind: WaitKind, from: i64, until: i64, allowed: i64) {
        let (run, seat) = (self.run.id.clone(), self.number);
        self.waits.push(UnownedWait { run, seat, kind, from, until, allowed });
    }

    /// The wait is over: fulfilled or no longer applicable.
    fn close_wait(&mut self, at: i64) {
        if let Some(from) = self.open.take() {
            self.push_wait(WaitKind::Open, from, at, 0);
        }
        if let Some(from) = self.silent.take() {
            self.push_wait(WaitKind::Silent, from, at, as_millis(self.run.settings.heartbeat_timeout));
        }
    }

    /// A log entry about the run as a whole.
    fn run(&mut self, entry: &RunLogEntry) {
        let at = entry.at.as_millis();
        if entry.word == RunInputKind::Pause {
            self.close_wait(at);
            (self.is_paused, self.rest) = (true, None);
        } else if entry.word == RunInputKind::Resume {
            (self.is_paused, self.counted) = (false, at);
            self.want_device(at);
        }
    }

    /// A device is wanted from now on, unless the run is paused or waits for a person.
    fn want_device(&mut self, at: i64) {
        let is_wanted = self.status.is_open() && !self.is_paused && !self.is_resting && !self.is_queued;
        self.open = (is_wanted && self.run.assign == RunAssignMode::Auto).then_some(at);
    }

    fn apply_entry(&mut self, entry: &RunLogEntry) {
        let at = entry.at.as_millis();
        let settings = &self.run.settings;
        if entry.word == RunInputKind::AssignmentTimeout {
            self.push_wait(WaitKind::Unanswered, self.counted, at, as_millis(settings.assignment_timeout));
        } else if entry.word == RunInputKind::ClaimExpiry {
            self.push_wait(WaitKind::NotBegun, self.counted, at, as_millis(settings.claim_timeout));
        } else if entry.word == RunInputKind::HeartbeatTimeout {
            self.silent = heard_at(entry);
        }
        if let Some((from, allowed)) = self.rest.take() {
            self.push_wait(WaitKind::Rest, from, at, allowed);
        }
        self.is_resting = false;
        self.status = entry.to;
        if entry.to.is_held() {
            self.close_wait(at);
            if entry.to == SeatStatus::Claimed {
                (self.rounds, self.is_queued) = (0, false);
            }
            if entry.from != Some(entry.to) {
                self.counted = at;
            }
        } else if entry.to.is_ended() {
            self.close_wait(at);
            // A run that has failed is not paused any more.
            self.is_paused &= entry.to != SeatStatus::Failed;
        } else if entry.word == RunInputKind::NobodyViable {
            self.close_wait(at);
            self.is_resting = true;
            if entry.why.as_deref() == Some("all devices have declined") {
                self.rounds += 1;
                self.rest = Some((at, as_millis(settings.backoff.rest_after(self.rounds - 1))));
            } else if entry.why.as_deref() == Some("all devices are busy") {
                self.is_queued = true;
            }
        } else if entry.to.is_open() {
            if entry.word == RunInputKind::Retry {
                (self.rounds, self.is_queued) = (0, false);
            }
            self.want_device(at);
            if self.open.is_none() {
                self.close_wait(at);
            }
        }
    }
}

/// When the holder was last heard of, according to the monitor's log entry.
fn heard_at(entry: &RunLogEntry) -> Option<i64> {
    let text = entry.why.as_deref()?.strip_prefix("not heard of since ")?;
    Timestamp::parse(text).ok().map(Timestamp::as_millis)
}
