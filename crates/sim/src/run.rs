//! One seed, from the first definition to the last check.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_store::clock::Clock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{SimCheck, SimViolation, check_leftovers};
use crate::client::SimClient;
use crate::collect;
use crate::external_worker::SimExternalWorker;
use crate::history::{SimHistory, SimPost};
use crate::person::SimPerson;
use crate::process::{self, ProcessSlots};
use crate::tally::{SimCount, SimCounts};
use crate::tenants::{self, SimTenant};
use crate::trace::TraceRecording;
use crate::wire::IngressSlots;
use crate::workload::{self, ScriptTarget};
use crate::world::SimWorld;

/// Everything must be quiet this long after the last fault: a sweeper that died keeps its duty lease for 15
/// s.
const PATIENCE: Duration = Duration::from_secs(120);
/// External workers.
const HANDS: usize = 2;
const LOOKS: Duration = Duration::from_millis(500);

/// Result of a seed.
#[derive(Debug, Clone)]
pub struct SimOutcome {
    pub seed: u64,
    pub violations: Vec<SimViolation>,
    pub counts: SimCounts,
    pub trace: Vec<String>,
    /// Total virtual time.
    pub lasted: Duration,
    /// Virtual time from the last fault until everything was quiet.
    pub settled_in: Duration,
}

/// Runs a seed, in this thread.
pub fn run(seed: u64, record: TraceRecording) -> SimOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulate_seed(seed, record)),
        Err(error) => SimOutcome {
            seed,
            violations: vec![SimViolation::new(SimCheck::C7, "", format!("no runtime: {error}"))],
            counts: SimCounts::default(),
            trace: Vec::new(),
            lasted: Duration::ZERO,
            settled_in: Duration::ZERO,
        },
    }
}

async fn simulate_seed(seed: u64, record: TraceRecording) -> SimOutcome {
    let begun = Instant::now();
    let world = SimWorld::from_seed(seed, record);
    let targets = workload::draw_targets(&world.dice);
    let violations = match play_scripts(&world, &targets).await {
        Ok(histories) => {
            let mut violations = world.seen_violations();
            violations.extend(histories.iter().flat_map(check_leftovers));
            violations
        }
        // The store itself never fails; only the schedule in front of it does.
        Err(error) => vec![SimViolation::new(SimCheck::C7, "", format!("the store failed: {error}"))],
    };
    for violation in &violations {
        world.trace_line("check", || violation.to_string());
    }
    SimOutcome {
        seed,
        violations,
        counts: world.tally.counts(),
        trace: world.trace.lines(),
        lasted: begun.elapsed(),
        settled_in: begun.elapsed().saturating_sub(world.plan.faulty_for),
    }
}

async fn play_scripts(
    world: &Arc<SimWorld>,
    targets: &[ScriptTarget],
) -> millstream_store::StoreResult<Vec<SimHistory>> {
    tenants::settle_in(world).await?;
    let plan = &world.plan;
    world.trace_line("world", || format!("{plan:?}"));
    let slots: ProcessSlots = Arc::new(Mutex::new(vec![None; plan.ingresses + plan.workers]));
    let doors: IngressSlots = Arc::new((0..plan.ingresses).map(|_| Arc::default()).collect());
    let mut fleet = JoinSet::new();
    for (number, door) in doors.iter().enumerate() {
        let slot = plan.workers + number;
        fleet.spawn(process::tend_ingress(world.clone(), slots.clone(), slot, number, door.clone()));
    }
    for slot in 0..plan.workers {
        fleet.spawn(process::tend_worker(world.clone(), slots.clone(), slot, doors.clone()));
    }
    fleet.spawn(process::strike_processes(world.clone(), slots));
    for number in 0..HANDS {
        fleet.spawn(SimExternalWorker::new(world, &doors, number).lease_and_complete());
    }
    for tenant in plan.tenants {
        fleet.spawn(SimPerson::new(world, &doors, *tenant).look_after());
    }
    let mut clients = JoinSet::new();
    let mut scripts = workload::draw_scripts(&world.dice, targets);
    if plan.tenants.contains(&SimTenant::Busy) {
        scripts.extend(workload::draw_backlog(&world.dice));
    }
    for script in scripts {
        let (tenant, client) = (script.tenant, SimClient::new(world, &doors, &script));
        clients.spawn(async move { (tenant, client.play_script(script).await) });
    }

    world.start_faults();
    tokio::time::sleep(plan.faulty_for).await;
    world.calm_down();
    let calm_at = world.clock.now().as_millis();

    let mut posts: Vec<(SimTenant, Vec<SimPost>)> = Vec::new();
    let end = Instant::now() + PATIENCE;
    let left = loop {
        while let Some(played) = clients.try_join_next() {
            posts.extend(played.ok());
        }
        let left = collect::collect_leftovers(world, clients.len()).await?;
        let quiet = left == Default::default() && collect::armed_timers(world).await? == 0;
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
        histories.push(SimHistory { posts, calm_at, ..collect::collect_history(world, &tenant.id()).await? });
    }
    // Leftovers belong to no specific tenant: the first history reports them.
    if let Some(first) = histories.first_mut() {
        first.left = left;
    }
    let paused = |status| matches!(status, millstream_model::status::ExecutionStatus::Paused);
    let cancelled = |status| matches!(status, millstream_model::status::ExecutionStatus::Cancelled);
    for execution in histories.iter().flat_map(|history| &history.executions) {
        world.tally.add(SimCount::PausedExecutions, usize::from(paused(execution.status)));
        let is_child = execution.parent.is_some();
        world.tally.add(SimCount::Cancelled, usize::from(cancelled(execution.status) && !is_child));
        world.tally.add(SimCount::Children, usize::from(is_child));
        let is_graph = !execution.nodes.is_empty();
        let passed = matches!(execution.status, millstream_model::status::ExecutionStatus::Completed);
        world.tally.add(SimCount::Graphs, usize::from(is_graph));
        world.tally.add(SimCount::GraphsPassed, usize::from(is_graph && passed));
        world.tally.add(SimCount::ChildrenCancelled, usize::from(is_child && cancelled(execution.status)));
    }
    let busy = histories.iter().skip(1).flat_map(|history| &history.executions);
    let decided = busy.flat_map(|execution| &execution.events).filter(|event| event.decided_at.is_some());
    world.tally.add(SimCount::BacklogDecided, decided.count());
    Ok(histories)
}
