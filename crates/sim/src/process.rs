//! Process manager: starts workers and ingresses, detects deaths, restarts them under new names.
//!
//! It also kills, freezes and drains them at random, and empties the stream.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use millstream_core::id::{Name, WorkerId};
use millstream_ingress::{AuthMode, IngressOptions, Life};
use millstream_rpc::evaluation_pool::EvaluationPlace;
use millstream_store::clock::{Clock, StoreClock};
use millstream_store::execution_store::MailboxLimits;
use millstream_worker::WorkerOptions;
use millstream_worker::executors::FixedExecutor;
use tokio_util::sync::CancellationToken;

use crate::check::{Check, OVERDUE_MILLIS, Violation};
use crate::executor::ToExecutors;
use crate::role::Role;
use crate::sink::ToSink;
use crate::tally::Count;
use crate::wire::Doors;
use crate::workload::POISON_CAP;
use crate::world::World;
use crate::{stores, streams};

/// Durations in the proportions of production, shorter.
pub(crate) const LOCK_TTL: Duration = Duration::from_millis(900);
pub(crate) const LEASE: Duration = Duration::from_millis(1_200);
pub(crate) const RECLAIM_IDLE: Duration = Duration::from_millis(1_800);
/// Name, role and capacity.
const EXECUTORS: [(&str, &str, u32); 3] = [("e0", "", 1), ("e1", "", 2), ("e2", "planner", 1)];
const LOOKS: Duration = Duration::from_millis(500);

/// The roles that run now, one per slot.
pub(crate) type Slots = Arc<Mutex<Vec<Option<Arc<Role>>>>>;

/// An ingress that can be reached.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) role: Arc<Role>,
    pub(crate) router: Router,
}

fn worker_options(world: &World, name: &str) -> WorkerOptions {
    let worker = WorkerId::parse(name).unwrap_or_else(|_| WorkerOptions::default().worker);
    WorkerOptions {
        batch: 8,
        held: 32,
        block: Duration::from_millis(500),
        mailbox: MailboxLimits { events: 4, bytes: 1 << 20 },
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
        executors: EXECUTORS.into_iter().flat_map(executor).collect(),
        ..WorkerOptions::of(worker)
    }
}

fn executor((name, role, capacity): (&str, &str, u32)) -> Option<FixedExecutor> {
    let roles = (!role.is_empty()).then(|| role.to_owned()).into_iter().collect();
    let address = format!("http://{name}.example");
    Some(FixedExecutor { name: Name::parse(name).ok()?, address, roles, labels: BTreeSet::new(), capacity })
}

/// The process's own clock, slightly off until it has asked the store.
fn clock(world: &World) -> Arc<StoreClock> {
    let now = world.clock.now();
    let off = world.dice.millis(0, world.plan.skew);
    if !off.is_zero() {
        world.count(Count::ClockOff);
    }
    Arc::new(StoreClock::starting_at(if world.dice.one_in(2) { now.plus(off) } else { now.minus(off) }))
}

/// Keeps one worker running.
pub(crate) async fn tend_worker(world: Arc<World>, slots: Slots, slot: usize, doors: Doors) {
    for life in 1.. {
        let role = Role::new(&world, format!("w{slot}.{life}"));
        let deps = millstream_worker::Deps {
            stores: stores::scheduled(&role),
            streams: streams::scheduled(&role),
            clock: clock(&world),
            entropy: Arc::new(world.dice.apart()),
            http: Some(Arc::new(ToSink(Arc::clone(&role)))),
            calls: None,
            secrets: None,
            nodes: Some(Arc::new(ToExecutors { role: Arc::clone(&role), doors: doors.clone() })),
            sinks: Vec::new(),
        };
        let shutdown = CancellationToken::new();
        occupy(&slots, slot, Some(Arc::clone(&role)));
        let running = millstream_worker::run(deps, worker_options(&world, &role.name), shutdown.clone());
        let mut task = tokio::spawn(running);
        let drained = async {
            role.told_to_drain().await;
            role.line(|| "receives the stop signal".to_owned());
            shutdown.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = role.died() => {
                task.abort();
                let _ = (&mut task).await;
            }
            ended = &mut task => {
                role.line(|| format!("ended: {ended:?}"));
                if !matches!(ended, Ok(Ok(()))) {
                    world.accuse(Violation::new(Check::C7, "", format!("a worker gave up: {ended:?}")));
                }
            }
            () = drained => {}
        }
        occupy(&slots, slot, None);
        role.retire();
        tokio::time::sleep(world.dice.millis(20, 1_500)).await;
    }
}

/// Keeps one ingress running.
pub(crate) async fn tend_ingress(
    world: Arc<World>,
    slots: Slots,
    slot: usize,
    number: usize,
    door: Arc<Mutex<Option<Door>>>,
) {
    for life in 1.. {
        let role = Role::new(&world, format!("i{number}.{life}"));
        let deps = millstream_ingress::Deps {
            stores: stores::scheduled(&role),
            streams: streams::scheduled(&role),
            clock: clock(&world),
            entropy: Arc::new(world.dice.apart()),
            metrics: Arc::new(String::new),
        };
        let options = IngressOptions {
            auth: AuthMode::InsecureNoAuth,
            commit_timeout: Duration::from_secs(3),
            evaluation_place: EvaluationPlace::Caller,
            ..IngressOptions::default()
        };
        let draining = CancellationToken::new();
        let alive = Life::until(draining.clone());
        let router = millstream_ingress::router(deps, options, &alive);
        open(&door, Some(Door { role: Arc::clone(&role), router }));
        occupy(&slots, slot, Some(Arc::clone(&role)));
        tokio::select! {
            biased;
            () = role.died() => open(&door, None),
            () = role.told_to_drain() => {
                role.line(|| "receives the stop signal".to_owned());
                draining.cancel();
                open(&door, None);
                tokio::select! {
                    biased;
                    () = role.died() => {}
                    () = alive.end() => role.line(|| "ended".to_owned()),
                }
            }
        }
        occupy(&slots, slot, None);
        role.retire();
        tokio::time::sleep(world.dice.millis(20, 1_000)).await;
    }
}

fn occupy(slots: &Slots, slot: usize, role: Option<Arc<Role>>) {
    if let Some(place) = slots.lock().unwrap_or_else(PoisonError::into_inner).get_mut(slot) {
        *place = role;
    }
}

fn open(door: &Mutex<Option<Door>>, opened: Option<Door>) {
    *door.lock().unwrap_or_else(PoisonError::into_inner) = opened;
}

/// Kills, freezes and drains at random while there are faults.
pub(crate) async fn strike(world: Arc<World>, slots: Slots) {
    loop {
        tokio::time::sleep(LOOKS).await;
        let rates = &world.plan.rates;
        let roles: Vec<Arc<Role>> =
            slots.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect();
        for role in roles {
            if world.strikes(rates.kill) {
                role.kill(Count::KillAtRandom);
            } else if world.strikes(rates.drain) {
                world.count(Count::Drain);
                role.drain();
            } else if world.strikes(rates.stall) {
                world.count(Count::Stall);
                // Just short of one of the timeouts that correctness depends on, or well beyond.
                let length = world.dice.pick(&[LOCK_TTL, LEASE, RECLAIM_IDLE]).unwrap_or(LEASE);
                role.freeze(length.mul_f64(0.8) + world.dice.millis(0, 1_800));
            }
        }
        if world.strikes(rates.amnesia) {
            world.count(Count::Amnesia);
            world.line("world", || "the stream loses everything".to_owned());
            world.bus.forget_everything();
            world.locks.forget_everything();
        }
    }
}
