//! D4: no seat lacks an owner for longer than the detection time: the allowed silence of its holder plus one
//! interval of the monitor.
//!
//! Every wait is measured against its own limit: a seat without a holder although a device could take it, the
//! silence of a holder until the next holder, an unanswered offer, a claim without a start, a rest. No device
//! is chosen while a run is paused, and none can be while all are busy.

use std::time::Duration;

use millstream_core::claim::{Assign, Entry, Status, Word};
use millstream_core::time::Timestamp;

use super::evidence::{Evidence, Finding, Rule, RunSeen};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

impl Kind {
    pub const ALL: &'static [Kind] =
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
pub struct Wait {
    pub run: String,
    pub seat: u16,
    pub kind: Kind,
    pub from: i64,
    pub until: i64,
    /// What the settings allow, without the monitor's interval.
    pub allowed: i64,
}

impl Wait {
    pub fn length(&self) -> i64 {
        self.until - self.from
    }

    /// The part beyond the limit of the settings.
    pub fn beyond(&self) -> i64 {
        (self.length() - self.allowed).max(0)
    }
}

pub type Waits = Vec<Wait>;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let slack = evidence.bounds.monitor + evidence.bounds.allowance;
    let too_long = |wait: &Wait| wait.beyond() > slack + outage(&evidence.clients.outages, wait);
    let all = waits(&evidence.runs);
    let found = all.iter().filter(|wait| too_long(wait)).map(|wait| {
        let Wait { seat, kind, from, allowed, .. } = wait;
        let (name, length) = (kind.name(), wait.length());
        Finding::of(
            Rule::Unowned,
            &wait.run,
            format!(
                "seat {seat}: {name} for {length} ms from {from} on; {allowed} and {slack} ms are allowed"
            ),
        )
    });
    found.collect()
}

/// The part of a wait in which no process could monitor runs.
fn outage(outages: &[(i64, i64)], wait: &Wait) -> i64 {
    outages.iter().map(|(from, until)| (wait.until.min(*until) - wait.from.max(*from)).max(0)).sum()
}

/// All waits in the logs.
pub fn waits(runs: &[RunSeen]) -> Waits {
    let of_seat = |run: &RunSeen, number: u16| {
        let mut walk = Walk::of(run, number);
        for entry in &run.log {
            match entry.seat {
                None => walk.run(entry),
                Some(seat) if seat == number => walk.seat(entry),
                Some(_) => {}
            }
        }
        walk.waits
    };
    let seats = |run: &RunSeen| u16::try_from(run.seats.len()).unwrap_or(u16::MAX);
    runs.iter().flat_map(|run| (0..seats(run)).flat_map(move |number| of_seat(run, number))).collect()
}

/// Position of the walk through a log, for one seat.
struct Walk<'a> {
    run: &'a RunSeen,
    number: u16,
    waits: Waits,
    status: Status,
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

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

impl<'a> Walk<'a> {
    fn of(run: &'a RunSeen, number: u16) -> Self {
        Self {
            run,
            number,
            waits: Vec::new(),
            status: Status::Created,
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

    fn push(&mut self, kind: Kind, from: i64, until: i64, allowed: i64) {
        let (run, seat) = (self.run.id.clone(), self.number);
        self.waits.push(Wait { run, seat, kind, from, until, allowed });
    }

    /// The wait is over: fulfilled or no longer applicable.
    fn close(&mut self, at: i64) {
        if let Some(from) = self.open.take() {
            self.push(Kind::Open, from, at, 0);
        }
        if let Some(from) = self.silent.take() {
            self.push(Kind::Silent, from, at, millis(self.run.settings.heartbeat_timeout));
        }
    }

    /// A log entry about the run as a whole.
    fn run(&mut self, entry: &Entry) {
        let at = entry.at.as_millis();
        if entry.word == Word::Pause {
            self.close(at);
            (self.is_paused, self.rest) = (true, None);
        } else if entry.word == Word::Resume {
            (self.is_paused, self.counted) = (false, at);
            self.want(at);
        }
    }

    /// A device is wanted from now on, unless the run is paused or waits for a person.
    fn want(&mut self, at: i64) {
        let is_wanted = self.status.is_open() && !self.is_paused && !self.is_resting && !self.is_queued;
        self.open = (is_wanted && self.run.assign == Assign::Auto).then_some(at);
    }

    fn seat(&mut self, entry: &Entry) {
        let at = entry.at.as_millis();
        let settings = &self.run.settings;
        if entry.word == Word::AssignmentTimeout {
            self.push(Kind::Unanswered, self.counted, at, millis(settings.assignment_timeout));
        } else if entry.word == Word::ClaimExpiry {
            self.push(Kind::NotBegun, self.counted, at, millis(settings.claim_timeout));
        } else if entry.word == Word::HeartbeatTimeout {
            self.silent = heard_at(entry);
        }
        if let Some((from, allowed)) = self.rest.take() {
            self.push(Kind::Rest, from, at, allowed);
        }
        self.is_resting = false;
        self.status = entry.to;
        if entry.to.is_held() {
            self.close(at);
            if entry.to == Status::Claimed {
                (self.rounds, self.is_queued) = (0, false);
            }
            if entry.from != Some(entry.to) {
                self.counted = at;
            }
        } else if entry.to.is_ended() {
            self.close(at);
            // A run that has failed is not paused any more.
            self.is_paused &= entry.to != Status::Failed;
        } else if entry.word == Word::NobodyViable {
            self.close(at);
            self.is_resting = true;
            if entry.why.as_deref() == Some("all devices have declined") {
                self.rounds += 1;
                self.rest = Some((at, millis(settings.backoff.rest(self.rounds - 1))));
            } else if entry.why.as_deref() == Some("all devices are busy") {
                self.is_queued = true;
            }
        } else if entry.to.is_open() {
            if entry.word == Word::Retry {
                (self.rounds, self.is_queued) = (0, false);
            }
            self.want(at);
            if self.open.is_none() {
                self.close(at);
            }
        }
    }
}

/// When the holder was last heard of, according to the monitor's log entry.
fn heard_at(entry: &Entry) -> Option<i64> {
    let text = entry.why.as_deref()?.strip_prefix("not heard of since ")?;
    Timestamp::parse(text).ok().map(Timestamp::as_millis)
}
