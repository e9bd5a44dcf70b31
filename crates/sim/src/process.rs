//! Process manager: starts workers and ingresses, detects deaths, restarts them under new names.
//!
//! It also kills, freezes and drains them at random, and empties the stream.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use millstream_ingress::{AuthMode, IngressLifecycle, IngressOptions};
use millstream_model::id::{Name, WorkerId};
use millstream_rpc::evaluation_pool::EvaluationPlace;
use millstream_store::clock::{Clock, StoreClock};
use millstream_store::execution_store::MailboxLimits;
use millstream_worker::WorkerOptions;
use millstream_worker::executors::FixedExecutor;
use tokio_util::sync::CancellationToken;

use crate::check::{OVERDUE_MILLIS, SimCheck, SimViolation};
use crate::executor::SimExecutorCalls;
use crate::role::SimProcess;
use crate::sink::SimSinkCalls;
use crate::tally::SimCount;
use crate::wire::IngressSlots;
use crate::workload::POISON_CAP;
use crate::world::SimWorld;
use crate::{stores, streams};

/// Durations in the proportions of production, shorter.
pub(crate) const LOCK_TTL: Duration = Duration::from_millis(900);
pub(crate) const LEASE: Duration = Duration::from_millis(1_200);
pub(crate) const RECLAIM_IDLE: Duration = Duration::from_millis(1_800);
/// Name, role and capacity.
const EXECUTORS: [(&str, &str, u32); 3] = [("e0", "", 1), ("e1", "", 2), ("e2", "planner", 1)];
const LOOKS: Duration = Duration::from_millis(500);

/// The roles that run now, one per slot.
pub(crate) type ProcessSlots = Arc<Mutex<Vec<Option<Arc<SimProcess>>>>>;

/// An ingress that can be reached.
#[derive(Debug, Clone)]
pub(crate) struct SimIngress {
    pub(crate) role: Arc<SimProcess>,
    pub(crate) router: Router,
}

fn worker_options(world: &SimWorld, name: &str) -> WorkerOptions {
    let worker = WorkerId::parse(name).unwrap_or_else(|_| WorkerOptions::default().worker);
    WorkerOptions {
        batch: 8,
        held: 32,
        block: Duration::from_millis(500),
        mailbox: MailboxLimits { events: 4, bytes: 1 << 20 },
        visit_events: 8,
        action_slots: world.plan.slots,
        node_slots: world.plan.slots,
        lease: LEASE,
        lock_ttl: LOCK_TTL,
        reclaim_idle: RECLAIM_IDLE,
        overdue: Duration::from_millis(OVERDUE_MILLIS.unsigned_abs()),
        tick: Duration::from_millis(700),
        drain: Duration::from_secs(2),
        poison_cap: POISON_CAP,
        evaluation_place: EvaluationPlace::Caller,
        executors: EXECUTORS.into_iter().flat_map(sim_executor).collect(),
        ..WorkerOptions::for_worker(worker)
    }
}

fn sim_executor((name, role, capacity): (&str, &str, u32)) -> Option<FixedExecutor> {
    let roles = (!role.is_empty()).then(|| role.to_owned()).into_iter().collect();
    let address = format!("http://{name}.example");
    Some(FixedExecutor { name: Name::parse(name).ok()?, address, roles, labels: BTreeSet::new(), capacity })
}

/// The process's own clock, slightly off until it has asked the store.
fn sim_clock(world: &SimWorld) -> Arc<StoreClock> {
    let now = world.clock.now();
    let off = world.dice.millis(0, world.plan.skew);
    if !off.is_zero() {
        world.count(SimCount::ClockOff);
    }
    Arc::new(StoreClock::starting_at(if world.dice.one_in(2) { now.plus(off) } else { now.minus(off) }))
}

/// Keeps one worker running.
pub(crate) async fn tend_worker(world: Arc<SimWorld>, slots: ProcessSlots, slot: usize, doors: IngressSlots) {
    for life in 1.. {
        let role = SimProcess::new(&world, format!("w{slot}.{life}"));
        let deps = millstream_worker::WorkerDeps {
            stores: stores::scheduled_stores(&role),
            streams: streams::scheduled_streams(&role),
            clock: sim_clock(&world),
            entropy: Arc::new(world.dice.independent_stream()),
            http: Some(Arc::new(SimSinkCalls(Arc::clone(&role)))),
            calls: None,
            secrets: None,
            nodes: Some(Arc::new(SimExecutorCalls { role: Arc::clone(&role), doors: doors.clone() })),
            sinks: Vec::new(),
        };
        let shutdown = CancellationToken::new();
        occupy_slot(&slots, slot, Some(Arc::clone(&role)));
        let running =
            millstream_worker::run_worker(deps, worker_options(&world, &role.name), shutdown.clone());
        let mut task = tokio::spawn(running);
        let drained = async {
            role.told_to_drain().await;
            role.trace_line(|| "receives the stop signal".to_owned());
            shutdown.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = role.wait_until_dead() => {
                task.abort();
                let _ = (&mut task).await;
            }
            ended = &mut task => {
                role.trace_line(|| format!("ended: {ended:?}"));
                if !matches!(ended, Ok(Ok(()))) {
                    world.report_violation(SimViolation::new(SimCheck::C7, "", format!("a worker gave up: {ended:?}")));
                }
            }
            () = drained => {}
        }
        occupy_slot(&slots, slot, None);
        role.retire();
        tokio::time::sleep(world.dice.millis(20, 1_500)).await;
    }
}

/// Keeps one ingress running.
pub(crate) async fn tend_ingress(
    world: Arc<SimWorld>,
    slots: ProcessSlots,
    slot: usize,
    number: usize,
    door: Arc<Mutex<Option<SimIngress>>>,
) {
    for life in 1.. {
        let role = SimProcess::new(&world, format!("i{number}.{life}"));
        let deps = millstream_ingress::IngressDeps {
            stores: stores::scheduled_stores(&role),
            streams: streams::scheduled_streams(&role),
            clock: sim_clock(&world),
            entropy: Arc::new(world.dice.independent_stream()),
            metrics: Arc::new(String::new),
        };
        let options = IngressOptions {
            auth: AuthMode::InsecureNoAuth,
            commit_timeout: Duration::from_secs(3),
            evaluation_place: EvaluationPlace::Caller,
            ..IngressOptions::default()
        };
        let draining = CancellationToken::new();
        let alive = IngressLifecycle::until_drained(draining.clone());
        let router = millstream_ingress::build_router(deps, options, &alive);
        open_ingress(&door, Some(SimIngress { role: Arc::clone(&role), router }));
        occupy_slot(&slots, slot, Some(Arc::clone(&role)));
        tokio::select! {
            biased;
            () = role.wait_until_dead() => open_ingress(&door, None),
            () = role.told_to_drain() => {
                role.trace_line(|| "receives the stop signal".to_owned());
                draining.cancel();
                open_ingress(&door, None);
                tokio::select! {
                    biased;
                    () = role.wait_until_dead() => {}
                    () = alive.end_tasks() => role.trace_line(|| "ended".to_owned()),
                }
            }
        }
        occupy_slot(&slots, slot, None);
        role.retire();
        tokio::time::sleep(world.dice.millis(20, 1_000)).await;
    }
}

fn occupy_slot(slots: &ProcessSlots, slot: usize, role: Option<Arc<SimProcess>>) {
    if let Some(place) = slots.lock().unwrap_or_else(PoisonError::into_inner).get_mut(slot) {
        *place = role;
    }
}

fn open_ingress(door: &Mutex<Option<SimIngress>>, opened: Option<SimIngress>) {
    *door.lock().unwrap_or_else(PoisonError::into_inner) = opened;
}

/// Kills, freezes and drains at random while there are faults.
pub(crate) async fn strike_processes(world: Arc<SimWorld>, slots: ProcessSlots) {
    loop {
        tokio::time::sleep(LOOKS).await;
        let rates = &world.plan.rates;
        let roles: Vec<Arc<SimProcess>> =
            slots.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect();
        for role in roles {
            if world.draws_fault(rates.kill) {
                role.kill(SimCount::KillAtRandom);
            } else if world.draws_fault(rates.drain) {
                world.count(SimCount::Drain);
                role.drain();
            } else if world.draws_fault(rates.stall) {
                world.count(SimCount::Stall);
                // Just short of one of the timeouts that correctness depends on, or well beyond.
                let length = world.dice.pick(&[LOCK_TTL, LEASE, RECLAIM_IDLE]).unwrap_or(LEASE);
                role.freeze(length.mul_f64(0.8) + world.dice.millis(0, 1_800));
            }
        }
        if world.draws_fault(rates.amnesia) {
            world.count(SimCount::Amnesia);
            world.trace_line("world", || "the stream loses everything".to_owned());
            world.bus.forget_everything();
            world.locks.forget_everything();
        }
    }
}
