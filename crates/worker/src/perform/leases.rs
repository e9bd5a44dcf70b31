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

use millstream_core::id::{ActionKey, ExecutionKey};
use millstream_store::action_store::{Beat as Renewal, Lease};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call::{Beat, Pulse};
use super::node_slots::Waits;
use super::tenant_slots::{SlotUse, TenantSlots};

#[derive(Debug, Default, Clone)]
pub(crate) struct Leases(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: Mutex<HashMap<ActionKey, Entry>>,
    tenants: TenantSlots,
    /// A lease is due for renewal sooner than all earlier ones.
    sooner: Notify,
    /// A lease is due for renewal at once.
    now: Notify,
}

#[derive(Debug)]
struct Entry {
    lease: Lease,
    deadline: Instant,
    length: Duration,
    lost: CancellationToken,
    cancelled: CancellationToken,
    whose: Whose,
    slot_use: SlotUse,
    /// Time of the next renewal.
    renewal: Instant,
    heartbeat: Option<Heartbeat>,
}

/// What the action belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Machine,
    Graph,
}

#[derive(Debug)]
struct Heartbeat {
    beats: watch::Receiver<Beat>,
    /// The last heartbeat recorded in the store.
    told: Instant,
    /// The heartbeat of the renewal in flight.
    telling: Instant,
}

/// A lease in use. Dropping it only forgets it, without release or settlement.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    lost: CancellationToken,
    cancelled: CancellationToken,
    beats: watch::Sender<Beat>,
    heartbeat: Option<Duration>,
    leases: Leases,
    /// For a node, until it has capacity at an executor.
    waits: Mutex<Option<Waits>>,
}

impl Leases {
    /// `asked` is the instant before the lease was requested; it lasts for `length`, or as long as its
    /// `heartbeat` says.
    pub(crate) fn hold(
        &self,
        lease: Lease,
        asked: Instant,
        length: Duration,
        heartbeat: Option<Duration>,
        whose: Whose,
    ) -> Held {
        let (lost, cancelled) = (CancellationToken::new(), CancellationToken::new());
        let (beats, seen) = watch::channel(Beat { at: asked, progress: None });
        let length = heartbeat.unwrap_or(length);
        let entry = Entry {
            lease: lease.clone(),
            deadline: asked + length,
            length,
            lost: lost.clone(),
            cancelled: cancelled.clone(),
            whose,
            slot_use: SlotUse::Attempt,
            renewal: asked + length / 3,
            heartbeat: heartbeat.map(|_| Heartbeat { beats: seen, told: asked, telling: asked }),
        };
        if whose == Whose::Machine {
            self.0.tenants.take(&lease.key.execution.tenant);
        }
        let replaced = self.entries().insert(lease.key.clone(), entry);
        if let Some(Entry { lease, whose: Whose::Machine, slot_use, .. }) = replaced {
            self.0.tenants.give_back(&lease.key.execution.tenant, slot_use);
        }
        if heartbeat.is_some() {
            self.0.sooner.notify_one();
        }
        Held { lease, lost, cancelled, beats, heartbeat, leases: self.clone(), waits: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ActionKey, Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In order, so that the same leases make the same call.
    pub(crate) fn all(&self) -> Vec<Lease> {
        let mut all: Vec<Lease> = self.entries().values().map(|entry| entry.lease.clone()).collect();
        all.sort_unstable();
        all
    }

    /// Slots held by actions of each tenant, without nodes.
    pub(crate) fn tenants(&self) -> &TenantSlots {
        &self.0.tenants
    }

    /// The graphs of the leases, each once.
    pub(crate) fn graphs(&self) -> Vec<ExecutionKey> {
        let entries = self.entries();
        let graphs = entries.values().filter(|entry| entry.whose == Whose::Graph);
        let graphs: BTreeSet<&ExecutionKey> = graphs.map(|entry| &entry.lease.key.execution).collect();
        graphs.into_iter().cloned().collect()
    }

    /// These executions have ended: their leases are renewed now, and the renewal reports whether they are
    /// still wanted.
    pub(crate) fn ended(&self, executions: &BTreeSet<ExecutionKey>) {
        let now = Instant::now();
        let mut any = false;
        for entry in self.entries().values_mut() {
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
            let next = self.entries().values().map(|entry| entry.renewal).min();
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
    pub(crate) fn due(&self) -> Vec<Renewal> {
        let now = Instant::now();
        let mut due = Vec::new();
        for entry in self.entries().values_mut().filter(|entry| entry.renewal <= now) {
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
    pub(crate) fn renewed(&self, lease: &Lease, asked: Instant) {
        if let Some(entry) = self.entries().get_mut(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.deadline = asked + entry.length;
            if let Some(heartbeat) = &mut entry.heartbeat {
                heartbeat.told = heartbeat.telling;
            }
        }
    }

    pub(crate) fn lost(&self, lease: &Lease) {
        if let Some(entry) = self.entries().get(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.lost.cancel();
        }
    }

    /// Its execution was cancelled: its performer may stop.
    pub(crate) fn cancelled(&self, lease: &Lease) {
        if let Some(entry) = self.entries().get(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.cancelled.cancel();
        }
    }
}

impl Held {
    /// The store reported that the lease has passed on.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether an attempt may begin: the lease is not lost, and not past its own deadline.
    pub(crate) fn is_good(&self) -> bool {
        let entries = self.leases.entries();
        !self.is_lost()
            && entries
                .get(&self.lease.key)
                .is_some_and(|entry| entry.lease == self.lease && Instant::now() < entry.deadline)
    }

    pub(crate) fn waits_for_place(&mut self, waits: Option<Waits>) {
        self.waits = Mutex::new(waits);
    }

    /// It has capacity at an executor, or needs none.
    pub(crate) fn placed(&self) {
        drop(self.waits.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Its attempt has ended; the lease goes on until the outcome is recorded.
    pub(crate) fn begin_settling(&self) {
        let mut entries = self.leases.entries();
        let entry = entries.get_mut(&self.lease.key).filter(|entry| entry.lease == self.lease);
        if let Some(entry) = entry
            && entry.whose == Whose::Machine
            && entry.slot_use == SlotUse::Attempt
        {
            entry.slot_use = SlotUse::Settlement;
            self.leases.0.tenants.begin_settling(&self.lease.key.execution.tenant);
        }
    }

    /// Returns when its execution was cancelled.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The handle for heartbeats of the performer.
    pub(crate) fn pulse(&self) -> Pulse {
        let pulse = Pulse::new(self.beats.clone(), self.cancelled.clone());
        // The begin counts as a heartbeat.
        pulse.beat(None);
        pulse
    }

    /// Returns the heartbeat timeout once it has passed without a heartbeat.
    pub(crate) async fn silent(&self) -> Duration {
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

impl Drop for Held {
    fn drop(&mut self) {
        let mut entries = self.leases.entries();
        if entries.get(&self.lease.key).is_some_and(|entry| entry.lease == self.lease) {
            let removed = entries.remove(&self.lease.key);
            if let Some(Entry { whose: Whose::Machine, slot_use, .. }) = removed {
                self.leases.0.tenants.give_back(&self.lease.key.execution.tenant, slot_use);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{Epoch, ExecutionId, ExecutionKey, Name, Seq, TenantId};
    use millstream_core::raw::RawJson;

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
    fn a_lease_past_its_own_deadline_is_not_good_until_renewed() {
        let leases = Leases::default();
        let held = leases.hold(lease(1), long_ago(), LONG, None, Whose::Machine);
        assert!(!held.is_good());
        leases.renewed(&lease(1), Instant::now());
        assert!(held.is_good());
    }

    #[test]
    fn news_of_an_older_epoch_do_not_touch_a_newer_lease() {
        let leases = Leases::default();
        let old = leases.hold(lease(1), Instant::now(), LONG, None, Whose::Machine);
        let new = leases.hold(lease(2), Instant::now(), LONG, None, Whose::Machine);
        leases.lost(&lease(1));
        assert!(new.is_good());
        assert!(!old.is_good());
        drop(old);
        assert_eq!(leases.all(), [lease(2)]);
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_its_length() {
        let leases = Leases::default();
        let _held = leases.hold(lease(1), Instant::now(), LONG, None, Whose::Machine);
        assert!(leases.due().is_empty());
        let _older = leases.hold(lease(2), long_ago(), LONG, None, Whose::Machine);
        assert_eq!(leases.due(), [Renewal::from(lease(2))]);
        assert!(leases.due().is_empty(), "not twice");
    }

    #[test]
    fn what_promised_signs_of_life_is_renewed_only_after_one() {
        let leases = Leases::default();
        let held = leases.hold(lease(1), long_ago(), LONG, Some(Duration::from_millis(1)), Whose::Machine);
        assert!(leases.due().is_empty());
        held.pulse().beat(Some(RawJson::trusted("7")));
        let mut due = Vec::new();
        while due.is_empty() {
            due = leases.due();
        }
        assert_eq!(due, [Renewal { lease: lease(1), progress: Some(RawJson::trusted("7")) }]);
    }

    #[test]
    fn a_sign_of_life_that_the_store_did_not_hear_is_told_again() {
        let leases = Leases::default();
        let moment = Duration::from_millis(1);
        let held = leases.hold(lease(1), long_ago(), LONG, Some(moment), Whose::Machine);
        held.pulse().beat(Some(RawJson::trusted("7")));
        let next = || {
            let begun = Instant::now();
            std::iter::from_fn(|| (begun.elapsed() < moment * 50).then(|| leases.due()))
                .find(|due| !due.is_empty())
        };
        let told = next().unwrap();
        assert_eq!(next().as_ref(), Some(&told), "no renewal was recorded");
        leases.renewed(&lease(1), Instant::now());
        assert_eq!(next(), None);
    }

    #[tokio::test]
    async fn what_belongs_to_an_execution_that_has_ended_is_renewed_at_once() {
        let leases = Leases::default();
        let _held = leases.hold(lease(1), Instant::now(), LONG, None, Whose::Graph);
        assert_eq!(leases.graphs(), [lease(1).key.execution]);
        let mut waiting = std::pin::pin!(leases.until_renewal(LONG));
        assert!(futures::poll!(&mut waiting).is_pending());
        leases.ended(&BTreeSet::from([lease(1).key.execution]));
        waiting.await;
        assert_eq!(leases.due(), [Renewal::from(lease(1))]);
        leases.cancelled(&lease(1));
        leases.ended(&BTreeSet::from([lease(1).key.execution]));
        assert!(leases.due().is_empty(), "already renewed");
    }

    #[tokio::test]
    async fn silence_is_noticed_and_a_beat_ends_it() {
        let leases = Leases::default();
        let moment = Duration::from_millis(50);
        let held = leases.hold(lease(1), Instant::now(), LONG, Some(moment), Whose::Machine);
        let pulse = held.pulse();
        let begun = Instant::now();
        let mut beats = 0;
        let silence = loop {
            tokio::select! {
                biased;
                silence = held.silent() => break silence,
                () = tokio::task::yield_now(), if beats < 1_000 && begun.elapsed() < moment * 2 => {
                    beats += 1;
                    pulse.beat(None);
                }
            }
        };
        assert_eq!(silence, moment);
        assert!(beats > 0 && begun.elapsed() > moment, "{:?}", begun.elapsed());
    }
}
