//! The store as seen by one process: every call goes through the process's schedule, and the guards check it.
//!
//! Calls that decide and act are here; reads are in [`crate::views`].

use std::sync::Arc;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, TenantId, WorkerId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, SettleVerdict, SettledBatch, Settlement,
};
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey};
use millstream_store::execution_store::{
    CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict, MailboxLimits,
};
use millstream_store::timer_store::TimerStore;
use millstream_store::{StoreResult, Stores};
use tokio::time::Instant;

use crate::check::{SimCheck, SimViolation};
use crate::guard::LeaseStanding;
use crate::role::SimProcess;
use crate::tally::SimCount;
use crate::workload::POISON;

#[derive(Debug, Clone)]
pub(crate) struct ScheduledStores {
    pub(crate) role: Arc<SimProcess>,
    pub(crate) truth: Stores,
}

/// The store for this role.
pub(crate) fn scheduled_stores(role: &Arc<SimProcess>) -> Stores {
    let truth = role.world.truth.clone();
    let (keys, quotas) = (truth.keys.clone(), truth.quotas.clone());
    let seen = Arc::new(ScheduledStores { role: Arc::clone(role), truth });
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

pub(crate) fn execution_list<'a>(executions: impl IntoIterator<Item = &'a ExecutionKey>) -> String {
    executions.into_iter().map(|key| key.execution.as_str()).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl EventLog for ScheduledStores {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>> {
        let about = || {
            let item = |item: &AppendRequest| match item {
                AppendRequest::Start(start) => start.key.execution.to_string(),
                AppendRequest::Event(event) => format!("{}/{}", event.execution.execution, event.name),
                AppendRequest::Signal(signal) => format!("{}/{}", signal.correlation, signal.name),
            };
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let (events, owned) = (self.truth.events.clone(), batch.to_vec());
        self.role.send("append", about, async move { events.append(&owned, now).await }).await
    }

    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>> {
        self.role.call("seen", String::new, self.truth.events.find_accepted(keys)).await
    }

    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>> {
        self.role
            .call("targets", || execution_list(executions), self.truth.events.find_definitions(executions))
            .await
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        self.role.call("undecided", String::new, self.truth.events.page_undecided(bands, after, limit)).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>> {
        self.role
            .call("has_work", || execution_list(executions), self.truth.events.has_work(executions))
            .await
    }
}

#[async_trait::async_trait]
impl ExecutionStore for ScheduledStores {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>> {
        let about = || execution_list(wanted.iter().map(|wanted| &wanted.execution));
        self.role.call("load", about, self.truth.executions.load_executions(wanted, limits)).await
    }

    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>> {
        let asked = Instant::now();
        let about = || {
            let item = |commit: &ExecutionCommit| {
                format!("{} {}→{}", commit.execution.execution, commit.expected, commit.state.seq)
            };
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let is_poison =
            |commit: &ExecutionCommit| commit.transitions.iter().any(|step| step.name.as_str() == POISON);
        if batch.iter().any(is_poison) {
            self.role.wait_while_frozen().await;
            self.role.trace_line(|| format!("commit {} is not made", about()));
            self.role.kill(SimCount::Poisoned);
            return std::future::pending().await;
        }
        let (me, worker, owned) = (self.clone(), worker.clone(), batch.to_vec());
        let lease = lease.clone();
        let effect = async move {
            let committed = me.truth.executions.commit_executions(&worker, &owned, &lease, now).await?;
            for (commit, verdict) in owned.iter().zip(&committed) {
                match verdict {
                    CommitVerdict::Done { leased, .. } => me.record_leases(leased, asked, &lease),
                    CommitVerdict::Conflict => {
                        me.role.world.count(SimCount::Conflicts);
                        me.role.trace_line(|| format!("conflict {}", commit.execution.execution));
                    }
                    CommitVerdict::Missing => {}
                }
            }
            Ok(committed)
        };
        self.role.send("commit", about, effect).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>> {
        let about = || execution_list(events.iter().map(|(execution, _)| execution));
        let (me, owned) = (self.clone(), events.to_vec());
        let effect = async move {
            me.role.world.tally.add(SimCount::Attempts, owned.len());
            me.truth.executions.count_attempts(&owned).await
        };
        self.role.send("count_attempts", about, effect).await
    }
}

impl ScheduledStores {
    pub(crate) fn record_leases(&self, leased: &[LeasedAction], asked: Instant, grant: &LeaseGrant) {
        let world = &self.role.world;
        match world.leases.record_grant(leased, asked, grant.ttl) {
            Ok(taken_over) => world.tally.add(SimCount::LeasedAgain, taken_over),
            Err(violation) => world.report_violation(violation),
        }
    }

    fn check_lease(&self, act: &str, lease: &Lease) {
        if let Err(violation) = self.role.world.leases.check_accepted(act, lease) {
            self.role.world.report_violation(violation);
        }
    }

    /// Rows of the actions whose leases have passed on: a lease that has passed on must not change them.
    async fn passed_on(&self, leases: &[Lease]) -> StoreResult<Vec<String>> {
        let mut lines = Vec::new();
        for lease in leases {
            if self.role.world.leases.lease_standing(lease) == LeaseStanding::PassedOn {
                let actions =
                    self.truth.execution_views.list_actions(&lease.key.execution, None, usize::MAX).await?;
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

fn lease_keys(leases: &[Lease]) -> String {
    let item =
        |lease: &Lease| format!("{}/{}#{}", lease.key.execution.execution, lease.key.action, lease.epoch.0);
    leases.iter().map(item).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl ActionStore for ScheduledStores {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        let asked = Instant::now();
        let (me, takers, grant) = (self.clone(), takers.to_vec(), grant.clone());
        let effect = async move {
            let leased = me.truth.actions.lease_each(&takers, &grant, now).await?;
            me.record_leases(&leased, asked, &grant);
            Ok(leased)
        };
        self.role.send("lease", String::new, effect).await
    }

    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>> {
        let asked = Instant::now();
        let leases: Vec<Lease> = beats.iter().map(|beat| beat.lease.clone()).collect();
        let (me, worker, owned, grant) = (self.clone(), worker.clone(), beats.to_vec(), grant.clone());
        let effect = async move {
            let pulses = me.truth.actions.renew_leases(&owned, &worker, &grant, now).await?;
            for (beat, pulse) in owned.iter().zip(&pulses) {
                match pulse {
                    LeasePulse::Held { .. } => {
                        me.check_lease("renewal", &beat.lease);
                        me.role.world.leases.record_renewal(&beat.lease, asked, grant.ttl);
                    }
                    LeasePulse::Lost => me.role.world.count(SimCount::LateRenewal),
                }
            }
            Ok(pulses)
        };
        self.role.send("renew", || lease_keys(&leases), effect).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>> {
        let leases: Vec<Lease> = inputs.iter().map(|(lease, _)| lease.clone()).collect();
        let (me, owned) = (self.clone(), inputs.to_vec());
        let effect = async move {
            let held = me.truth.actions.record_inputs(&owned).await?;
            for ((lease, _), held) in owned.iter().zip(&held) {
                if *held {
                    me.check_lease("input", lease);
                } else {
                    me.role.world.count(SimCount::LateInput);
                }
            }
            Ok(held)
        };
        self.role.send("record_inputs", || lease_keys(&leases), effect).await
    }

    async fn settle_actions(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<SettledBatch> {
        let asked = Instant::now();
        let leases: Vec<Lease> = batch.iter().map(|settlement| settlement.lease.clone()).collect();
        let (me, worker, owned, grant) = (self.clone(), worker.clone(), batch.to_vec(), grant.clone());
        let effect = async move {
            let settled = me.truth.actions.settle_actions(&worker, &owned, &grant, now).await?;
            for (settlement, verdict) in owned.iter().zip(&settled.verdicts) {
                match verdict {
                    SettleVerdict::Recorded { .. } => me.check_lease("settlement", &settlement.lease),
                    SettleVerdict::Stale => me.role.world.count(SimCount::LateSettlement),
                }
            }
            me.record_leases(&settled.leased, asked, &grant);
            Ok(settled)
        };
        self.role.send("settle", || lease_keys(&leases), effect).await
    }

    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> StoreResult<()> {
        let (me, owned) = (self.clone(), leases.to_vec());
        let effect = async move {
            let before = me.passed_on(&owned).await?;
            me.truth.actions.release_leases(&owned, now).await?;
            let after = me.passed_on(&owned).await?;
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
                let execution = before.split('/').nth(1).unwrap_or_default();
                let what = format!("a release by an old lease: {before} became {after}");
                me.role.world.report_violation(SimViolation::new(SimCheck::Lease, execution, what));
            }
            Ok(())
        };
        self.role.send("release", || lease_keys(leases), effect).await
    }
}

#[async_trait::async_trait]
impl TimerStore for ScheduledStores {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> StoreResult<Vec<ExecutionKey>> {
        let (me, owned) = (self.clone(), ids.to_vec());
        let effect = async move {
            let fired = me.truth.timers.fire_due(&owned, now).await?;
            me.role.world.tally.add(SimCount::TimersFired, fired.len());
            if !fired.is_empty() {
                me.role.trace_line(|| format!("fired {}", execution_list(&fired)));
            }
            Ok(fired)
        };
        self.role.send("fire_due", String::new, effect).await
    }

    async fn next_due(&self, queues: &[ActionQueue]) -> StoreResult<Option<Timestamp>> {
        self.role.call("next_due", String::new, self.truth.timers.next_due(queues)).await
    }
}
