//! The store as seen by one process: every call goes through the process's schedule, and the guards check it.
//!
//! Calls that decide and act are here; reads are in [`crate::views`].

use std::sync::Arc;

use millstream_core::id::{DefinitionRef, EventId, ExecutionKey, TenantId, WorkerId};
use millstream_core::placement::Queue;
use millstream_core::raw::RawJson;
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;
use millstream_store::action_store::{
    ActionStore, Beat, Lease, LeasedAction, Pulse, SettleVerdict, Settled, Settlement,
};
use millstream_store::event_log::{Append, Appended, EventLog, Idempotency};
use millstream_store::execution_store::{
    Commit, Committed, ExecutionStore, LeaseGrant, Loaded, MailboxLimits, Wanted,
};
use millstream_store::timer_store::TimerStore;
use millstream_store::{Result, Stores};
use tokio::time::Instant;

use crate::check::{Check, Violation};
use crate::guard::Standing;
use crate::role::Role;
use crate::tally::Count;
use crate::workload::POISON;

#[derive(Debug, Clone)]
pub(crate) struct Scheduled {
    pub(crate) role: Arc<Role>,
    pub(crate) truth: Stores,
}

/// The store for this role.
pub(crate) fn scheduled(role: &Arc<Role>) -> Stores {
    let truth = role.world.truth.clone();
    let (keys, quotas) = (truth.keys.clone(), truth.quotas.clone());
    let seen = Arc::new(Scheduled { role: Arc::clone(role), truth });
    Stores {
        events: seen.clone(),
        executions: seen.clone(),
        actions: seen.clone(),
        timers: seen.clone(),
        definitions: seen.clone(),
        interventions: seen.clone(),
        execution_views: seen.clone(),
        event_views: seen.clone(),
        keys,
        workers: seen.clone(),
        housekeeping: seen.clone(),
        tasks: seen.clone(),
        incidents: seen.clone(),
        relations: seen.clone(),
        graphs: seen.clone(),
        graph_views: seen.clone(),
        executors: seen.clone(),
        feed: seen.clone(),
        outbox: seen.clone(),
        notices: seen.clone(),
        devices: seen.clone(),
        runs: seen.clone(),
        run_views: seen.clone(),
        queues: seen.clone(),
        people: seen.clone(),
        items: seen.clone(),
        assignments: seen.clone(),
        assignment_views: seen,
        quotas,
    }
}

pub(crate) fn listed<'a>(executions: impl IntoIterator<Item = &'a ExecutionKey>) -> String {
    executions.into_iter().map(|key| key.execution.as_str()).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl EventLog for Scheduled {
    async fn append(&self, batch: &[Append], now: Timestamp) -> Result<Vec<Appended>> {
        let about = || {
            let item = |item: &Append| match item {
                Append::Start(start) => start.key.execution.to_string(),
                Append::Event(event) => format!("{}/{}", event.execution.execution, event.name),
                Append::Signal(signal) => format!("{}/{}", signal.correlation, signal.name),
            };
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let (events, owned) = (self.truth.events.clone(), batch.to_vec());
        self.role.send("append", about, async move { events.append(&owned, now).await }).await
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Result<Vec<Option<Appended>>> {
        self.role.call("seen", String::new, self.truth.events.seen(keys)).await
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        self.role.call("targets", || listed(executions), self.truth.events.targets(executions)).await
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        self.role.call("undecided", String::new, self.truth.events.undecided(bands, after, limit)).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Result<Vec<bool>> {
        self.role.call("has_work", || listed(executions), self.truth.events.has_work(executions)).await
    }
}

#[async_trait::async_trait]
impl ExecutionStore for Scheduled {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Result<Vec<Loaded>> {
        let about = || listed(wanted.iter().map(|wanted| &wanted.execution));
        self.role.call("load", about, self.truth.executions.load(wanted, limits)).await
    }

    async fn commit(
        &self,
        worker: &WorkerId,
        batch: &[Commit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Committed>> {
        let asked = Instant::now();
        let about = || {
            let item = |commit: &Commit| {
                format!("{} {}→{}", commit.execution.execution, commit.expected, commit.state.seq)
            };
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let is_poison = |commit: &Commit| commit.transitions.iter().any(|step| step.name.as_str() == POISON);
        if batch.iter().any(is_poison) {
            self.role.alive().await;
            self.role.line(|| format!("commit {} is not made", about()));
            self.role.kill(Count::Poisoned);
            return std::future::pending().await;
        }
        let (me, worker, owned) = (self.clone(), worker.clone(), batch.to_vec());
        let lease = lease.clone();
        let effect = async move {
            let committed = me.truth.executions.commit(&worker, &owned, &lease, now).await?;
            for (commit, verdict) in owned.iter().zip(&committed) {
                match verdict {
                    Committed::Done { leased, .. } => me.leased(leased, asked, &lease),
                    Committed::Conflict => {
                        me.role.world.count(Count::Conflicts);
                        me.role.line(|| format!("conflict {}", commit.execution.execution));
                    }
                    Committed::Missing => {}
                }
            }
            Ok(committed)
        };
        self.role.send("commit", about, effect).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Result<Vec<i32>> {
        let about = || listed(events.iter().map(|(execution, _)| execution));
        let (me, owned) = (self.clone(), events.to_vec());
        let effect = async move {
            me.role.world.tally.add(Count::Attempts, owned.len());
            me.truth.executions.count_attempts(&owned).await
        };
        self.role.send("count_attempts", about, effect).await
    }
}

impl Scheduled {
    pub(crate) fn leased(&self, leased: &[LeasedAction], asked: Instant, grant: &LeaseGrant) {
        let world = &self.role.world;
        match world.leases.granted(leased, asked, grant.ttl) {
            Ok(taken_over) => world.tally.add(Count::LeasedAgain, taken_over),
            Err(violation) => world.accuse(violation),
        }
    }

    fn accepted(&self, act: &str, lease: &Lease) {
        if let Err(violation) = self.role.world.leases.accepted(act, lease) {
            self.role.world.accuse(violation);
        }
    }

    /// Rows of the actions whose leases have passed on: a lease that has passed on must not change them.
    async fn passed_on(&self, leases: &[Lease]) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for lease in leases {
            if self.role.world.leases.standing(lease) == Standing::PassedOn {
                let actions =
                    self.truth.execution_views.actions(&lease.key.execution, None, usize::MAX).await?;
                let row = actions.into_iter().find(|action| action.key == lease.key);
                lines.push(format!(
                    "{}: {:?}",
                    lease.key,
                    row.map(|row| (row.status, row.epoch, row.attempts))
                ));
            }
        }
        Ok(lines)
    }
}

fn keys(leases: &[Lease]) -> String {
    let item =
        |lease: &Lease| format!("{}/{}#{}", lease.key.execution.execution, lease.key.action, lease.epoch.0);
    leases.iter().map(item).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl ActionStore for Scheduled {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>> {
        let asked = Instant::now();
        let (me, takers, grant) = (self.clone(), takers.to_vec(), grant.clone());
        let effect = async move {
            let leased = me.truth.actions.lease_each(&takers, &grant, now).await?;
            me.leased(&leased, asked, &grant);
            Ok(leased)
        };
        self.role.send("lease", String::new, effect).await
    }

    async fn renew(
        &self,
        beats: &[Beat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Pulse>> {
        let asked = Instant::now();
        let leases: Vec<Lease> = beats.iter().map(|beat| beat.lease.clone()).collect();
        let (me, worker, owned, grant) = (self.clone(), worker.clone(), beats.to_vec(), grant.clone());
        let effect = async move {
            let pulses = me.truth.actions.renew(&owned, &worker, &grant, now).await?;
            for (beat, pulse) in owned.iter().zip(&pulses) {
                match pulse {
                    Pulse::Held { .. } => {
                        me.accepted("renewal", &beat.lease);
                        me.role.world.leases.renewed(&beat.lease, asked, grant.ttl);
                    }
                    Pulse::Lost => me.role.world.count(Count::LateRenewal),
                }
            }
            Ok(pulses)
        };
        self.role.send("renew", || keys(&leases), effect).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>> {
        let leases: Vec<Lease> = inputs.iter().map(|(lease, _)| lease.clone()).collect();
        let (me, owned) = (self.clone(), inputs.to_vec());
        let effect = async move {
            let held = me.truth.actions.record_inputs(&owned).await?;
            for ((lease, _), held) in owned.iter().zip(&held) {
                if *held {
                    me.accepted("input", lease);
                } else {
                    me.role.world.count(Count::LateInput);
                }
            }
            Ok(held)
        };
        self.role.send("record_inputs", || keys(&leases), effect).await
    }

    async fn settle(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Settled> {
        let asked = Instant::now();
        let leases: Vec<Lease> = batch.iter().map(|settlement| settlement.lease.clone()).collect();
        let (me, worker, owned, grant) = (self.clone(), worker.clone(), batch.to_vec(), grant.clone());
        let effect = async move {
            let settled = me.truth.actions.settle(&worker, &owned, &grant, now).await?;
            for (settlement, verdict) in owned.iter().zip(&settled.verdicts) {
                match verdict {
                    SettleVerdict::Recorded { .. } => me.accepted("settlement", &settlement.lease),
                    SettleVerdict::Stale => me.role.world.count(Count::LateSettlement),
                }
            }
            me.leased(&settled.leased, asked, &grant);
            Ok(settled)
        };
        self.role.send("settle", || keys(&leases), effect).await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> Result<()> {
        let (me, owned) = (self.clone(), leases.to_vec());
        let effect = async move {
            let before = me.passed_on(&owned).await?;
            me.truth.actions.release(&owned, now).await?;
            let after = me.passed_on(&owned).await?;
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
                let execution = before.split('/').nth(1).unwrap_or_default();
                let what = format!("a release by an old lease: {before} became {after}");
                me.role.world.accuse(Violation::new(Check::Lease, execution, what));
            }
            Ok(())
        };
        self.role.send("release", || keys(leases), effect).await
    }
}

#[async_trait::async_trait]
impl TimerStore for Scheduled {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> Result<Vec<ExecutionKey>> {
        let (me, owned) = (self.clone(), ids.to_vec());
        let effect = async move {
            let fired = me.truth.timers.fire_due(&owned, now).await?;
            me.role.world.tally.add(Count::TimersFired, fired.len());
            if !fired.is_empty() {
                me.role.line(|| format!("fired {}", listed(&fired)));
            }
            Ok(fired)
        };
        self.role.send("fire_due", String::new, effect).await
    }

    async fn next_due(&self, queues: &[Queue]) -> Result<Option<Timestamp>> {
        self.role.call("next_due", String::new, self.truth.timers.next_due(queues)).await
    }
}
