//! The leases that a worker holds, and the detection of lost ones.
//!
//! The store decides by epoch. In addition a holder fences itself: a lease is good until its length has
//! passed on the monotonic clock since *before* it was requested, independent of any wall clock.
//!
//! A lease on an action with a heartbeat timeout is renewed only after a heartbeat, and carries the newest
//! progress; without a heartbeat for too long the action is silent, and its attempt ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::{ActionKey, ExecutionKey};
use millstream_store::action_store::{Lease, LeaseHeartbeat as Renewal};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::node_slots::WaitsForPlace;
use super::pulse::{AttemptBeat, AttemptPulse};
use super::tenant_slots::TenantSlots;

#[derive(Debug, Default, Clone)]
pub(crate) struct HeldLeases(Arc<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    entries: Mutex<HashMap<ActionKey, LeaseEntry>>,
    tenants: TenantSlots,
    /// A lease is due for renewal sooner than all earlier ones.
    sooner: Notify,
    /// A lease is due for renewal at once.
    now: Notify,
}

#[derive(Debug)]
struct LeaseEntry {
    lease: Lease,
    deadline: Instant,
    length: Duration,
    lost: CancellationToken,
    cancelled: CancellationToken,
    whose: LeaseOwner,
    /// Time of the next renewal.
    renewal: Instant,
    heartbeat: Option<HeartbeatTimes>,
}

/// What the action belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseOwner {
    Machine,
    Graph,
}

#[derive(Debug)]
struct HeartbeatTimes {
    beats: watch::Receiver<AttemptBeat>,
    /// The last heartbeat recorded in the store.
    told: Instant,
    /// The heartbeat of the renewal in flight.
    telling: Instant,
}

/// A lease in use. Dropping it only forgets it, without release or settlement.
#[derive(Debug)]
pub(crate) struct HeldLease {
    pub(crate) lease: Lease,
    lost: CancellationToken,
    cancelled: CancellationToken,
    beats: watch::Sender<AttemptBeat>,
    heartbeat: Option<Duration>,
    leases: HeldLeases,
    /// For a node, until it has capacity at an executor.
    waits: Mutex<Option<WaitsForPlace>>,
}

impl HeldLeases {
    /// `asked` is the instant before the lease was requested; it lasts for `length`, or as long as its
    /// `heartbeat` says.
    pub(crate) fn hold_lease(
        &self,
        lease: Lease,
        asked: Instant,
        length: Duration,
        heartbeat: Option<Duration>,
        whose: LeaseOwner,
    ) -> HeldLease {
        let (lost, cancelled) = (CancellationToken::new(), CancellationToken::new());
        let (beats, seen) = watch::channel(AttemptBeat { at: asked, progress: None });
        let length = heartbeat.unwrap_or(length);
        let entry = LeaseEntry {
            lease: lease.clone(),
            deadline: asked + length,
            length,
            lost: lost.clone(),
            cancelled: cancelled.clone(),
            whose,
            renewal: asked + length / 3,
            heartbeat: heartbeat.map(|_| HeartbeatTimes { beats: seen, told: asked, telling: asked }),
        };
        if whose == LeaseOwner::Machine {
            self.0.tenants.take_slot(&lease.key.execution.tenant);
        }
        let replaced = self.lock_entries().insert(lease.key.clone(), entry);
        if let Some(LeaseEntry { lease, whose: LeaseOwner::Machine, .. }) = replaced {
            self.0.tenants.release_slot(&lease.key.execution.tenant);
        }
        if heartbeat.is_some() {
            self.0.sooner.notify_one();
        }
        HeldLease { lease, lost, cancelled, beats, heartbeat, leases: self.clone(), waits: Mutex::default() }
    }

    fn lock_entries(&self) -> MutexGuard<'_, HashMap<ActionKey, LeaseEntry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In order, so that the same leases make the same call.
    pub(crate) fn all_leases(&self) -> Vec<Lease> {
        let mut all: Vec<Lease> = self.lock_entries().values().map(|entry| entry.lease.clone()).collect();
        all.sort_unstable();
        all
    }

    /// Slots held by actions of each tenant, without nodes.
    pub(crate) fn tenant_slots(&self) -> &TenantSlots {
        &self.0.tenants
    }

    /// The graphs of the leases, each once.
    pub(crate) fn held_graphs(&self) -> Vec<ExecutionKey> {
        let entries = self.lock_entries();
        let graphs = entries.values().filter(|entry| entry.whose == LeaseOwner::Graph);
        let graphs: BTreeSet<&ExecutionKey> = graphs.map(|entry| &entry.lease.key.execution).collect();
        graphs.into_iter().cloned().collect()
    }

    /// These executions have ended: their leases are renewed now, and the renewal reports whether they are
    /// still wanted.
    pub(crate) fn renew_ended(&self, executions: &BTreeSet<ExecutionKey>) {
        let now = Instant::now();
        let mut any = false;
        for entry in self.lock_entries().values_mut() {
            if executions.contains(&entry.lease.key.execution) && !entry.cancelled.is_cancelled() {
                entry.renewal = now;
                any = true;
            }
        }
        if any {
            self.0.now.notify_one();
        }
    }

    /// Waits until a lease may be due for renewal, at most `longest`.
    pub(crate) async fn until_renewal(&self, longest: Duration) {
        let end = Instant::now() + longest;
        loop {
            let next = self.lock_entries().values().map(|entry| entry.renewal).min();
            // Batching: leases of one commit are renewed together, slightly late, instead of one by one.
            let until = next.map_or(end, |next| (next + longest / 20).min(end));
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => return,
                () = self.0.now.notified() => return,
                () = self.0.sooner.notified() => {}
            }
        }
    }

    /// Leases due for renewal now, in order.
    pub(crate) fn due_renewals(&self) -> Vec<Renewal> {
        let now = Instant::now();
        let mut due = Vec::new();
        for entry in self.lock_entries().values_mut().filter(|entry| entry.renewal <= now) {
            entry.renewal = now + entry.length / 3;
            let progress = match &mut entry.heartbeat {
                None => None,
                Some(heartbeat) => {
                    let beat = heartbeat.beats.borrow().clone();
                    if beat.at <= heartbeat.told {
                        continue;
                    }
                    heartbeat.telling = beat.at;
                    beat.progress
                }
            };
            due.push(Renewal { lease: entry.lease.clone(), progress });
        }
        due.sort_unstable_by(|a, b| a.lease.cmp(&b.lease));
        due
    }

    /// `asked` is the instant before the renewal was requested.
    pub(crate) fn mark_renewed(&self, lease: &Lease, asked: Instant) {
        if let Some(entry) = self.lock_entries().get_mut(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.deadline = asked + entry.length;
            if let Some(heartbeat) = &mut entry.heartbeat {
                heartbeat.told = heartbeat.telling;
            }
        }
    }

    pub(crate) fn mark_lost(&self, lease: &Lease) {
        if let Some(entry) = self.lock_entries().get(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.lost.cancel();
        }
    }

    /// Its execution was cancelled: its performer may stop.
    pub(crate) fn mark_cancelled(&self, lease: &Lease) {
        if let Some(entry) = self.lock_entries().get(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.cancelled.cancel();
        }
    }
}

impl HeldLease {
    /// The store reported that the lease has passed on.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    pub(crate) async fn until_lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether an attempt may begin: the lease is not lost, and not past its own deadline.
    pub(crate) fn is_good(&self) -> bool {
        let entries = self.leases.lock_entries();
        !self.is_lost()
            && entries
                .get(&self.lease.key)
                .is_some_and(|entry| entry.lease == self.lease && Instant::now() < entry.deadline)
    }

    pub(crate) fn waits_for_place(&mut self, waits: Option<WaitsForPlace>) {
        self.waits = Mutex::new(waits);
    }

    /// It has capacity at an executor, or needs none.
    pub(crate) fn mark_placed(&self) {
        drop(self.waits.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns when its execution was cancelled.
    pub(crate) async fn until_cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The handle for heartbeats of the performer.
    pub(crate) fn attempt_pulse(&self) -> AttemptPulse {
        let pulse = AttemptPulse::new(self.beats.clone(), self.cancelled.clone());
        // The begin counts as a heartbeat.
        pulse.send_beat(None);
        pulse
    }

    /// Returns the heartbeat timeout once it has passed without a heartbeat.
    pub(crate) async fn until_silent(&self) -> Duration {
        let Some(heartbeat) = self.heartbeat else { return std::future::pending().await };
        let mut beats = self.beats.subscribe();
        loop {
            let last = beats.borrow_and_update().at;
            tokio::select! {
                biased;
                changed = beats.changed() => if changed.is_err() { return heartbeat },
                () = tokio::time::sleep_until(last + heartbeat) => return heartbeat,
            }
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let mut entries = self.leases.lock_entries();
        if entries.get(&self.lease.key).is_some_and(|entry| entry.lease == self.lease) {
            let removed = entries.remove(&self.lease.key);
            if let Some(LeaseEntry { whose: LeaseOwner::Machine, .. }) = removed {
                self.leases.0.tenants.release_slot(&self.lease.key.execution.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::id::{Epoch, ExecutionId, ExecutionKey, Name, Seq, TenantId};
    use millstream_model::raw::RawJson;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn lease(epoch: i64) -> Lease {
        let execution =
            ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("x").unwrap() };
        let key = ActionKey { execution, seq: Seq(2), action: Name::parse("a").unwrap() };
        Lease { key, epoch: Epoch(epoch) }
    }

    fn long_ago() -> Instant {
        Instant::now().checked_sub(LONG * 2).unwrap()
    }

    #[test]
    fn expired_lease_is_good_after_renewal() {
        let leases = HeldLeases::default();
        let held = leases.hold_lease(lease(1), long_ago(), LONG, None, LeaseOwner::Machine);
        assert!(!held.is_good());
        leases.mark_renewed(&lease(1), Instant::now());
        assert!(held.is_good());
    }

    #[test]
    fn older_epoch_does_not_affect_lease() {
        let leases = HeldLeases::default();
        let old = leases.hold_lease(lease(1), Instant::now(), LONG, None, LeaseOwner::Machine);
        let new = leases.hold_lease(lease(2), Instant::now(), LONG, None, LeaseOwner::Machine);
        leases.mark_lost(&lease(1));
        assert!(new.is_good());
        assert!(!old.is_good());
        drop(old);
        assert_eq!(leases.all_leases(), [lease(2)]);
    }

    #[test]
    fn lease_is_renewed_at_a_third() {
        let leases = HeldLeases::default();
        let _held = leases.hold_lease(lease(1), Instant::now(), LONG, None, LeaseOwner::Machine);
        assert!(leases.due_renewals().is_empty());
        let _older = leases.hold_lease(lease(2), long_ago(), LONG, None, LeaseOwner::Machine);
        assert_eq!(leases.due_renewals(), [Renewal::from(lease(2))]);
        assert!(leases.due_renewals().is_empty(), "not twice");
    }

    #[test]
    fn heartbeat_lease_is_renewed_after_heartbeat() {
        let leases = HeldLeases::default();
        let held = leases.hold_lease(
            lease(1),
            long_ago(),
            LONG,
            Some(Duration::from_millis(1)),
            LeaseOwner::Machine,
        );
        assert!(leases.due_renewals().is_empty());
        held.attempt_pulse().send_beat(Some(RawJson::from_trusted_text("7")));
        let mut due = Vec::new();
        while due.is_empty() {
            due = leases.due_renewals();
        }
        assert_eq!(due, [Renewal { lease: lease(1), progress: Some(RawJson::from_trusted_text("7")) }]);
    }

    #[test]
    fn unrecorded_heartbeat_is_sent_again() {
        let leases = HeldLeases::default();
        let moment = Duration::from_millis(1);
        let held = leases.hold_lease(lease(1), long_ago(), LONG, Some(moment), LeaseOwner::Machine);
        held.attempt_pulse().send_beat(Some(RawJson::from_trusted_text("7")));
        let next = || {
            let begun = Instant::now();
            std::iter::from_fn(|| (begun.elapsed() < moment * 50).then(|| leases.due_renewals()))
                .find(|due| !due.is_empty())
        };
        let told = next().unwrap();
        assert_eq!(next().as_ref(), Some(&told), "no renewal was recorded");
        leases.mark_renewed(&lease(1), Instant::now());
        assert_eq!(next(), None);
    }

    #[tokio::test]
    async fn lease_of_ended_execution_is_renewed() {
        let leases = HeldLeases::default();
        let _held = leases.hold_lease(lease(1), Instant::now(), LONG, None, LeaseOwner::Graph);
        assert_eq!(leases.held_graphs(), [lease(1).key.execution]);
        let mut waiting = std::pin::pin!(leases.until_renewal(LONG));
        assert!(futures::poll!(&mut waiting).is_pending());
        leases.renew_ended(&BTreeSet::from([lease(1).key.execution]));
        waiting.await;
        assert_eq!(leases.due_renewals(), [Renewal::from(lease(1))]);
        leases.mark_cancelled(&lease(1));
        leases.renew_ended(&BTreeSet::from([lease(1).key.execution]));
        assert!(leases.due_renewals().is_empty(), "already renewed");
    }

    #[tokio::test]
    async fn missing_heartbeat_makes_lease_silent() {
        let leases = HeldLeases::default();
        let moment = Duration::from_millis(50);
        let held = leases.hold_lease(lease(1), Instant::now(), LONG, Some(moment), LeaseOwner::Machine);
        let pulse = held.attempt_pulse();
        let begun = Instant::now();
        let mut beats = 0;
        let silence = loop {
            tokio::select! {
                biased;
                silence = held.until_silent() => break silence,
                () = tokio::task::yield_now(), if beats < 1_000 && begun.elapsed() < moment * 2 => {
                    beats += 1;
                    pulse.send_beat(None);
                }
            }
        };
        assert_eq!(silence, moment);
        assert!(beats > 0 && begun.elapsed() > moment, "{:?}", begun.elapsed());
    }
}
