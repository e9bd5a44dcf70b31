//! Counters of events in a run: a check proves nothing if its faults did not occur.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Counted events. The first ones are injected, the later ones are their effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimCount {
    // Faults of the schedule.
    Calls,
    Delayed,
    Refused,
    InDoubt,
    Contention,
    Hang,
    KillBefore,
    KillAfter,
    Late,
    Posthumous,
    KillAtRandom,
    Poisoned,
    Stall,
    Drain,
    Amnesia,
    SilentAmnesia,
    ClockOff,
    LostRing,
    RingTwice,
    Reordered,
    LostDelivery,
    SinkRefused,
    SinkFailed,
    SinkSilent,
    SinkAnswerLost,
    SinkSlow,
    RequestLost,
    AnswerLost,
    // Reactions of the processes.
    Posts,
    Acknowledged,
    RefusedPosts,
    AnsweredAsRepeat,
    LeftUnanswered,
    PostedAgain,
    Applied,
    Rejected,
    DeadEvents,
    PausedExecutions,
    Cancelled,
    Retried,
    Conflicts,
    LockBusy,
    LockLost,
    Redelivered,
    Attempts,
    LeasedAgain,
    LateRenewal,
    LateSettlement,
    LateInput,
    OldTokenAtSink,
    KeyRepeatedAtSink,
    Effects,
    TimersFired,
    StaleTimers,
    Deferred,
    TasksTaken,
    TasksDone,
    TasksDropped,
    TasksRefused,
    Children,
    ChildrenCancelled,
    Decided,
    Graphs,
    GraphsPassed,
    GraphEdits,
    NodesCalled,
    NodesAccepted,
    NodesTold,
    NodesCrashed,
    BacklogDecided,
}

impl SimCount {
    pub const ALL: &'static [SimCount] = &[
        Self::Calls,
        Self::Delayed,
        Self::Refused,
        Self::InDoubt,
        Self::Contention,
        Self::Hang,
        Self::KillBefore,
        Self::KillAfter,
        Self::Late,
        Self::Posthumous,
        Self::KillAtRandom,
        Self::Poisoned,
        Self::Stall,
        Self::Drain,
        Self::Amnesia,
        Self::SilentAmnesia,
        Self::ClockOff,
        Self::LostRing,
        Self::RingTwice,
        Self::Reordered,
        Self::LostDelivery,
        Self::SinkRefused,
        Self::SinkFailed,
        Self::SinkSilent,
        Self::SinkAnswerLost,
        Self::SinkSlow,
        Self::RequestLost,
        Self::AnswerLost,
        Self::Posts,
        Self::Acknowledged,
        Self::RefusedPosts,
        Self::AnsweredAsRepeat,
        Self::LeftUnanswered,
        Self::PostedAgain,
        Self::Applied,
        Self::Rejected,
        Self::DeadEvents,
        Self::PausedExecutions,
        Self::Cancelled,
        Self::Retried,
        Self::Conflicts,
        Self::LockBusy,
        Self::LockLost,
        Self::Redelivered,
        Self::Attempts,
        Self::LeasedAgain,
        Self::LateRenewal,
        Self::LateSettlement,
        Self::LateInput,
        Self::OldTokenAtSink,
        Self::KeyRepeatedAtSink,
        Self::Effects,
        Self::TimersFired,
        Self::StaleTimers,
        Self::Deferred,
        Self::TasksTaken,
        Self::TasksDone,
        Self::TasksDropped,
        Self::TasksRefused,
        Self::Children,
        Self::ChildrenCancelled,
        Self::Decided,
        Self::Graphs,
        Self::GraphsPassed,
        Self::GraphEdits,
        Self::NodesCalled,
        Self::NodesAccepted,
        Self::NodesTold,
        Self::NodesCrashed,
        Self::BacklogDecided,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Delayed => "delayed",
            Self::Refused => "refused",
            Self::InDoubt => "done, answer lost",
            Self::Contention => "contention",
            Self::Hang => "hung until killed",
            Self::KillBefore => "killed before a call",
            Self::KillAfter => "killed after a call",
            Self::Late => "arrived after its sender got an error",
            Self::Posthumous => "arrived after its sender was killed",
            Self::KillAtRandom => "killed at random",
            Self::Poisoned => "killed by a poison event",
            Self::Stall => "stalled",
            Self::Drain => "drained",
            Self::Amnesia => "stream emptied",
            Self::SilentAmnesia => "stream emptied, reader not notified",
            Self::ClockOff => "started with a clock that is off",
            Self::LostRing => "bell lost",
            Self::RingTwice => "bell rung twice",
            Self::Reordered => "deliveries reordered",
            Self::LostDelivery => "delivery lost on its way",
            Self::SinkRefused => "action refused for now",
            Self::SinkFailed => "action refused permanently",
            Self::SinkSilent => "action never answered",
            Self::SinkAnswerLost => "action done, answer lost",
            Self::SinkSlow => "action took its time",
            Self::RequestLost => "request lost",
            Self::AnswerLost => "answer lost",
            Self::Posts => "posts",
            Self::Acknowledged => "acknowledged",
            Self::RefusedPosts => "refused by the ingress",
            Self::AnsweredAsRepeat => "acknowledged after a repeat",
            Self::LeftUnanswered => "given up unanswered",
            Self::PostedAgain => "posted again",
            Self::Applied => "events applied",
            Self::Rejected => "events rejected",
            Self::DeadEvents => "events dead",
            Self::PausedExecutions => "executions paused",
            Self::Cancelled => "executions cancelled",
            Self::Retried => "events retried by a person",
            Self::Conflicts => "commits in conflict",
            Self::LockBusy => "locks busy",
            Self::LockLost => "locks released or extended too late",
            Self::Redelivered => "bells redelivered",
            Self::Attempts => "attempts counted on events",
            Self::LeasedAgain => "actions leased again",
            Self::LateRenewal => "late renewals refused",
            Self::LateSettlement => "late settlements refused",
            Self::LateInput => "late inputs refused",
            Self::OldTokenAtSink => "old tokens refused by the sink",
            Self::KeyRepeatedAtSink => "keys repeated at the sink",
            Self::Effects => "effects",
            Self::TimersFired => "timers fired",
            Self::StaleTimers => "timers that came too late",
            Self::Deferred => "events deferred",
            Self::TasksTaken => "tasks taken",
            Self::TasksDone => "tasks completed",
            Self::TasksDropped => "tasks dropped without a word",
            Self::TasksRefused => "words about tasks refused",
            Self::Children => "children",
            Self::ChildrenCancelled => "children cancelled",
            Self::Decided => "incidents decided by a person",
            Self::Graphs => "graphs",
            Self::GraphsPassed => "graphs that passed",
            Self::GraphEdits => "edits applied",
            Self::NodesCalled => "nodes given to executors",
            Self::NodesAccepted => "nodes accepted for later",
            Self::NodesTold => "nodes told later",
            Self::NodesCrashed => "nodes done, executor gone",
            Self::BacklogDecided => "events of the busy tenant decided",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SimTally(Mutex<SimCounts>);

impl SimTally {
    pub(crate) fn add(&self, what: SimCount, times: usize) {
        if times > 0 {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.0.entry(what).or_default() += times as u64;
        }
    }

    pub(crate) fn counts(&self) -> SimCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The sums of one run, or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimCounts(BTreeMap<SimCount, u64>);

impl SimCounts {
    pub fn of(&self, what: SimCount) -> u64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(*what).or_default() += times;
        }
    }

    pub fn table(&self) -> String {
        let line = |what: &SimCount| format!("{:>12}  {}\n", self.of(*what), what.name());
        SimCount::ALL.iter().map(line).collect()
    }
}
