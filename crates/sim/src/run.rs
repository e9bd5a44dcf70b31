//! One seed, from the first definition to the last check.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_store::clock::Clock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Check, Violation, check};
use crate::client::Client;
use crate::collect;
use crate::hand::Hand;
use crate::history::{History, Post};
use crate::person::Person;
use crate::process::{self, Slots};
use crate::tally::{Count, Counts};
use crate::tenants::{self, SimTenant};
use crate::trace::Record;
use crate::wire::Doors;
use crate::workload::{self, Target};
use crate::world::World;

/// Everything must be quiet this long after the last fault: a sweeper that died keeps its duty lease for 15
/// s.
const PATIENCE: Duration = Duration::from_secs(120);
/// External workers.
const HANDS: usize = 2;
const LOOKS: Duration = Duration::from_millis(500);

/// Result of a seed.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub counts: Counts,
    pub trace: Vec<String>,
    /// Total virtual time.
    pub lasted: Duration,
    /// Virtual time from the last fault until everything was quiet.
    pub settled_in: Duration,
}

/// Runs a seed, in this thread.
pub fn run(seed: u64, record: Record) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulate(seed, record)),
        Err(error) => Outcome {
            seed,
            violations: vec![Violation::new(Check::C7, "", format!("no runtime: {error}"))],
            counts: Counts::default(),
            trace: Vec::new(),
            lasted: Duration::ZERO,
            settled_in: Duration::ZERO,
        },
    }
}

async fn simulate(seed: u64, record: Record) -> Outcome {
    let begun = Instant::now();
    let world = World::of(seed, record);
    let targets = workload::targets(&world.dice);
    let violations = match play(&world, &targets).await {
        Ok(histories) => {
            let mut violations = world.seen();
            violations.extend(histories.iter().flat_map(check));
            violations
        }
        // The store itself never fails; only the schedule in front of it does.
        Err(error) => vec![Violation::new(Check::C7, "", format!("the store failed: {error}"))],
    };
    for violation in &violations {
        world.line("check", || violation.to_string());
    }
    Outcome {
        seed,
        violations,
        counts: world.tally.counts(),
        trace: world.trace.lines(),
        lasted: begun.elapsed(),
        settled_in: begun.elapsed().saturating_sub(world.plan.faulty_for),
    }
}

async fn play(world: &Arc<World>, targets: &[Target]) -> millstream_store::Result<Vec<History>> {
    tenants::settle_in(world).await?;
    let plan = &world.plan;
    world.line("world", || format!("{plan:?}"));
    let slots: Slots = Arc::new(Mutex::new(vec![None; plan.ingresses + plan.workers]));
    let doors: Doors = Arc::new((0..plan.ingresses).map(|_| Arc::default()).collect());
    let mut fleet = JoinSet::new();
    for (number, door) in doors.iter().enumerate() {
        let slot = plan.workers + number;
        fleet.spawn(process::tend_ingress(world.clone(), slots.clone(), slot, number, door.clone()));
    }
    for slot in 0..plan.workers {
        fleet.spawn(process::tend_worker(world.clone(), slots.clone(), slot, doors.clone()));
    }
    fleet.spawn(process::strike(world.clone(), slots));
    for number in 0..HANDS {
        fleet.spawn(Hand::new(world, &doors, number).work());
    }
    for tenant in plan.tenants {
        fleet.spawn(Person::new(world, &doors, *tenant).look_after());
    }
    let mut clients = JoinSet::new();
    let mut scripts = workload::scripts(&world.dice, targets);
    if plan.tenants.contains(&SimTenant::Busy) {
        scripts.extend(workload::backlog(&world.dice));
    }
    for script in scripts {
        let (tenant, client) = (script.tenant, Client::new(world, &doors, &script));
        clients.spawn(async move { (tenant, client.play(script).await) });
    }

    world.stir();
    tokio::time::sleep(plan.faulty_for).await;
    world.calm_down();
    let calm_at = world.clock.now().as_millis();

    let mut posts: Vec<(SimTenant, Vec<Post>)> = Vec::new();
    let end = Instant::now() + PATIENCE;
    let left = loop {
        while let Some(played) = clients.try_join_next() {
            posts.extend(played.ok());
        }
        let left = collect::left(world, clients.len()).await?;
        let quiet = left == Default::default() && collect::armed(world).await? == 0;
        if quiet || Instant::now() >= end {
            break left;
        }
        tokio::time::sleep(LOOKS).await;
    };
    fleet.shutdown().await;

    let mut histories = Vec::new();
    for tenant in plan.tenants {
        let own = posts.iter().filter(|(of, _)| of == tenant);
        let posts = own.flat_map(|(_, posts)| posts).cloned().collect();
        histories.push(History { posts, calm_at, ..collect::history(world, &tenant.id()).await? });
    }
    // Leftovers belong to no specific tenant: the first history reports them.
    if let Some(first) = histories.first_mut() {
        first.left = left;
    }
    let paused = |status| matches!(status, millstream_core::status::ExecutionStatus::Paused);
    let cancelled = |status| matches!(status, millstream_core::status::ExecutionStatus::Cancelled);
    for execution in histories.iter().flat_map(|history| &history.executions) {
        world.tally.add(Count::PausedExecutions, usize::from(paused(execution.status)));
        let is_child = execution.parent.is_some();
        world.tally.add(Count::Cancelled, usize::from(cancelled(execution.status) && !is_child));
        world.tally.add(Count::Children, usize::from(is_child));
        let is_graph = !execution.nodes.is_empty();
        let passed = matches!(execution.status, millstream_core::status::ExecutionStatus::Completed);
        world.tally.add(Count::Graphs, usize::from(is_graph));
        world.tally.add(Count::GraphsPassed, usize::from(is_graph && passed));
        world.tally.add(Count::ChildrenCancelled, usize::from(is_child && cancelled(execution.status)));
    }
    let busy = histories.iter().skip(1).flat_map(|history| &history.executions);
    let decided = busy.flat_map(|execution| &execution.events).filter(|event| event.decided_at.is_some());
    world.tally.add(Count::BacklogDecided, decided.count());
    Ok(histories)
}
