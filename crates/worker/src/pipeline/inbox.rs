//! In-memory inbox: the doorbells held by a worker, by execution.
//!
//! A doorbell is held from its read to its acknowledgement. All doorbells of one execution are one unit of
//! work: at most one visit to an execution is under way, doorbells that arrive meanwhile wait for the next
//! visit (their event may be younger than what the visit loaded), and undecided ones are kept and retried
//! together.
//!
//! Ready executions wait in a fair queue over tenants ([`millstream_model::fair`]): the backlog of one tenant
//! does not delay the others. A large visit takes long, so the executions of tenants with few of them go in
//! an extra visit beside it: before a backlog is taken ([`Inbox::take_beside_backlog`]), and while all visit
//! slots are in use ([`Inbox::take_newcomers`]).
//!
//! Suspects that have to be decided alone are visited one at a time, each in a visit of its own, alternating
//! with the others: if a suspect crashes the process, no other suspect was being tried.
//!
//! Back-off, with jitter: none after a visit that decided a part of the mailbox, a busy lock 1 → 50 ms, an unavailable store 100 ms → 5 s, an error 100 ms → 5 s.
//! This file reads no clock, and a retry never stops the reading of other executions until the worker holds
//! its maximum of doorbells.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use millstream_model::fair::{FairQueue, TenantWeights};
use millstream_model::id::{ExecutionKey, TenantId};
use millstream_stream::doorbell::StreamEntryId;
use tokio::time::Instant;

use super::tenant_shares::TenantShares;

/// A tenant with more executions ready than this has a backlog.
const FEW_EXECUTIONS: usize = 16;

/// A visit to one execution.
#[derive(Debug, Clone)]
pub(crate) struct MailboxVisit {
    pub(crate) execution: ExecutionKey,
    /// The doorbells that this visit answers.
    pub(crate) entries: Vec<StreamEntryId>,
    pub(crate) suspicion: VisitSuspicion,
    /// Earlier visits without a result.
    pub(crate) tries: u32,
}

/// Whether an earlier visit was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VisitSuspicion {
    None,
    /// Its doorbell was reclaimed from a worker that is gone. That visit may have included many others.
    Redelivered,
    /// To be decided alone.
    Alone {
        why: String,
        attempt: SuspectAttempt,
    },
}

/// Whether the attempt on a suspect is already counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuspectAttempt {
    ToCount,
    /// Counted, and then a service failed, which is not the event's fault.
    Counted,
}

/// Outcome of a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VisitOutcome {
    /// The store knows what is left and the doorbells are acknowledged.
    Answered,
    /// To be retried.
    Kept(RetryReason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetryReason {
    /// Another worker holds the lock.
    Busy,
    /// A service is unavailable, which is not the execution's fault.
    Unavailable,
    /// Everything that was loaded is decided, and the doorbell for what is left could not be rung.
    Unrung,
    /// Its definition is not usable by this build.
    Foreign,
    /// Suspected more than once: to be retried alone.
    Suspected { why: String },
    /// An attempt was counted, and a service became unavailable before it was made.
    Unfinished { why: String },
    /// It failed; a retry in the same batch could make others fail.
    Failed { why: String },
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    held: HashMap<ExecutionKey, HeldExecution>,
    ready: FairQueue<ExecutionKey>,
    /// Ready executions that have to be visited alone.
    suspects: FairQueue<ExecutionKey>,
    /// The suspect under visit.
    suspect: Option<ExecutionKey>,
    next: VisitTurn,
    waiting: BTreeSet<(Instant, ExecutionKey)>,
    entries: HashSet<StreamEntryId>,
    shares: TenantShares,
}

#[derive(Debug)]
struct HeldExecution {
    entries: Vec<StreamEntryId>,
    /// Arrived during the visit under way.
    later: Vec<StreamEntryId>,
    suspicion: VisitSuspicion,
    tries: u32,
    place: InboxPlace,
}

/// Which kind of visit comes next while both are ready.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum VisitTurn {
    #[default]
    Company,
    Suspect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InboxPlace {
    Ready,
    Visited,
    Waiting { until: Instant },
}

impl Inbox {
    pub(crate) fn with_weights(weights: &TenantWeights) -> Self {
        Self {
            ready: FairQueue::with_weights(weights.clone()),
            suspects: FairQueue::with_weights(weights.clone()),
            ..Self::default()
        }
    }

    /// Adds a doorbell, or an execution found in the store (`None`).
    pub(crate) fn enqueue_delivery(
        &mut self,
        execution: ExecutionKey,
        entry: Option<StreamEntryId>,
        suspicion: VisitSuspicion,
    ) {
        if let Some(entry) = &entry
            && !self.entries.insert(entry.clone())
        {
            // Our own entry, read or reclaimed a second time.
            return;
        }
        if entry.is_some() {
            self.shares.hold_doorbell(&execution.tenant);
        }
        if let Some(held) = self.held.get_mut(&execution) {
            match held.place {
                InboxPlace::Ready | InboxPlace::Waiting { .. } => held.entries.extend(entry),
                InboxPlace::Visited => held.later.extend(entry),
            }
            if held.suspicion == VisitSuspicion::None {
                held.suspicion = suspicion;
            }
            return;
        }
        self.ready.push(&execution.tenant, execution.clone());
        let held = HeldExecution {
            entries: entry.into_iter().collect(),
            later: Vec::new(),
            suspicion,
            tries: 0,
            place: InboxPlace::Ready,
        };
        self.held.insert(execution, held);
    }

    /// Number of executions ready for a visit.
    pub(crate) fn count_ready(&mut self, now: Instant) -> usize {
        self.promote_due(now);
        let suspects = if self.suspect.is_none() { self.suspects.len() } else { 0 };
        self.ready.len() + suspects
    }

    fn promote_due(&mut self, now: Instant) {
        while let Some((until, _)) = self.waiting.first()
            && *until <= now
            && let Some((_, execution)) = self.waiting.pop_first()
        {
            if let Some(held) = self.held.get_mut(&execution) {
                held.place = InboxPlace::Ready;
                self.ready.push(&execution.tenant.clone(), execution);
            }
        }
    }

    /// Takes up to `max` ready executions, or one suspect alone.
    pub(crate) fn take_visits(&mut self, max: usize, now: Instant) -> Vec<MailboxVisit> {
        self.promote_due(now);
        let mut visits = match self.next {
            VisitTurn::Suspect => {
                self.next = VisitTurn::Company;
                self.take_suspect()
            }
            VisitTurn::Company => {
                self.next = VisitTurn::Suspect;
                Vec::new()
            }
        };
        if visits.is_empty() {
            visits = self.take_batch(max);
        }
        // The search may have found the first suspect.
        if visits.is_empty() { self.take_suspect() } else { visits }
    }

    fn take_batch(&mut self, max: usize) -> Vec<MailboxVisit> {
        let mut visits = Vec::new();
        while visits.len() < max
            && let Some((_, execution)) = self.ready.pop()
        {
            visits.extend(self.begin_batch_visit(execution));
        }
        visits
    }

    /// Takes up to `max` executions of tenants with few ready ones and no visit under way, while another
    /// tenant has a backlog.
    pub(crate) fn take_beside_backlog(&mut self, max: usize, now: Instant) -> Vec<MailboxVisit> {
        self.promote_due(now);
        let (mut few, mut has_backlog) = (HashSet::new(), false);
        for tenant in self.ready.waiting_tenants() {
            if self.ready.len_of(tenant) > FEW_EXECUTIONS {
                has_backlog = true;
            } else if !self.shares.is_visited(tenant) {
                few.insert(tenant.clone());
            }
        }
        if has_backlog { self.take_of_tenants(max, |tenant| few.contains(tenant)) } else { Vec::new() }
    }

    /// Takes up to `max` executions of tenants that pass the filter and have no visit under way.
    pub(crate) fn take_newcomers(
        &mut self,
        max: usize,
        now: Instant,
        passes: impl Fn(&TenantId) -> bool,
    ) -> Vec<MailboxVisit> {
        self.promote_due(now);
        let is_busy = |tenant: &&TenantId| self.shares.is_visited(tenant) || !passes(tenant);
        let busy: HashSet<TenantId> = self.ready.waiting_tenants().filter(is_busy).cloned().collect();
        self.take_of_tenants(max, |tenant| !busy.contains(tenant))
    }

    fn take_of_tenants(&mut self, max: usize, passes: impl Fn(&TenantId) -> bool) -> Vec<MailboxVisit> {
        let mut visits = Vec::new();
        while visits.len() < max
            && let Some((_, execution)) = self.ready.pop_where(&passes)
        {
            visits.extend(self.begin_batch_visit(execution));
        }
        visits
    }

    /// Suspects are set aside.
    fn begin_batch_visit(&mut self, execution: ExecutionKey) -> Option<MailboxVisit> {
        match self.held.get(&execution).map(|held| &held.suspicion) {
            Some(VisitSuspicion::None | VisitSuspicion::Redelivered) => self.begin_visit(execution),
            Some(VisitSuspicion::Alone { .. }) => {
                self.suspects.push(&execution.tenant.clone(), execution);
                None
            }
            None => None,
        }
    }

    fn take_suspect(&mut self) -> Vec<MailboxVisit> {
        if self.suspect.is_some() {
            return Vec::new();
        }
        self.suspect = self.suspects.pop().map(|(_, execution)| execution);
        self.suspect.clone().and_then(|execution| self.begin_visit(execution)).into_iter().collect()
    }

    fn begin_visit(&mut self, execution: ExecutionKey) -> Option<MailboxVisit> {
        let held = self.held.get_mut(&execution)?;
        held.place = InboxPlace::Visited;
        self.shares.begin_visit(&execution.tenant);
        Some(MailboxVisit {
            execution,
            entries: held.entries.clone(),
            suspicion: std::mem::replace(&mut held.suspicion, VisitSuspicion::None),
            tries: held.tries,
        })
    }

    /// Records the end of a visit. `unit`, in `0.0..1.0`, is the jitter.
    pub(crate) fn end_visit(&mut self, visit: MailboxVisit, end: VisitOutcome, now: Instant, unit: f64) {
        if self.suspect.as_ref() == Some(&visit.execution) {
            self.suspect = None;
        }
        let Some(held) = self.held.get_mut(&visit.execution) else { return };
        self.shares.end_visit(&visit.execution.tenant);
        match end {
            VisitOutcome::Answered => {
                self.shares.release_doorbells(&visit.execution.tenant, visit.entries.len());
                for entry in &visit.entries {
                    self.entries.remove(entry);
                }
                if held.later.is_empty() {
                    self.held.remove(&visit.execution);
                } else {
                    held.entries = std::mem::take(&mut held.later);
                    held.tries = 0;
                    held.place = InboxPlace::Ready;
                    self.ready.push(&visit.execution.tenant.clone(), visit.execution);
                }
            }
            VisitOutcome::Kept(why) => {
                let wait = retry_backoff(&why, held.tries, unit);
                held.tries = if why == RetryReason::Unrung { 0 } else { held.tries.saturating_add(1) };
                held.entries.append(&mut held.later);
                let alone = |why, attempt| VisitSuspicion::Alone { why, attempt };
                match why {
                    // The attempt succeeded.
                    RetryReason::Unrung => {}
                    // The attempt was not made: the suspicion remains.
                    RetryReason::Busy | RetryReason::Unavailable | RetryReason::Foreign => {
                        match visit.suspicion {
                            VisitSuspicion::None => {}
                            suspicion @ (VisitSuspicion::Redelivered | VisitSuspicion::Alone { .. }) => {
                                held.suspicion = suspicion;
                            }
                        }
                    }
                    RetryReason::Unfinished { why } => held.suspicion = alone(why, SuspectAttempt::Counted),
                    RetryReason::Suspected { why } | RetryReason::Failed { why } => {
                        held.suspicion = alone(why, SuspectAttempt::ToCount);
                    }
                }
                held.place = InboxPlace::Waiting { until: now + wait };
                self.waiting.insert((now + wait, visit.execution));
            }
        }
    }

    /// Time of the next retry.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len().max(self.held.len())
    }

    /// Tenants with enough held doorbells, in an inbox of `held`.
    pub(crate) fn full_tenants(&self, held: usize, batch: usize) -> BTreeSet<TenantId> {
        if self.entries.len() < batch { BTreeSet::new() } else { self.shares.full_tenants(held, batch) }
    }

    /// All held doorbells, for the refresh.
    pub(crate) fn held_entries(&self) -> Vec<StreamEntryId> {
        self.entries.iter().cloned().collect()
    }

    /// All that is left, in order, for the hand-back.
    pub(crate) fn drain_for_hand_back(&mut self) -> Vec<(ExecutionKey, Vec<StreamEntryId>)> {
        self.ready.clear();
        self.suspects.clear();
        self.waiting.clear();
        self.entries.clear();
        self.shares.clear_all();
        let left = |(execution, mut held): (ExecutionKey, HeldExecution)| {
            held.entries.append(&mut held.later);
            (execution, held.entries)
        };
        let mut all: Vec<_> = self.held.drain().map(left).collect();
        all.sort_unstable();
        all
    }
}

fn retry_backoff(why: &RetryReason, tries: u32, unit: f64) -> Duration {
    let (first, longest) = match why {
        RetryReason::Busy => (Duration::from_millis(1), Duration::from_millis(50)),
        RetryReason::Suspected { .. } | RetryReason::Unrung => return Duration::ZERO,
        RetryReason::Foreign => (Duration::from_secs(2), Duration::from_secs(5)),
        RetryReason::Unavailable | RetryReason::Unfinished { .. } | RetryReason::Failed { .. } => {
            (Duration::from_millis(100), Duration::from_secs(5))
        }
    };
    let ceiling = first.saturating_mul(1 << tries.min(20)).min(longest);
    ceiling.mul_f64(0.5 + unit / 2.0)
}

#[cfg(test)]
mod tests;
