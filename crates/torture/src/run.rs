//! One run, from the start of the fleet to the verdict.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::chance::TortureRandom;
use crate::check::{self, TortureCheck, TortureEvidence, TortureViolation};
use crate::deck::FaultDeck;
use crate::drill::{self, RecoveryDrill};
use crate::fault_kind::{FaultKind, FaultLane};
use crate::faults::{self, FaultGround, InjectedFault};
use crate::history::TortureHistory;
use crate::load::{PostRecord, TortureLoad, definitions};
use crate::options::TortureOptions;
use crate::quiet;
use crate::report::TortureReport;
use crate::stage::{DeathCause, JUMP, ProcessSupervisor, TortureStage};

/// Time before the first fault, to build up load.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longer than the slowest answer of a bad network.
const ESTIMATE: Duration = Duration::from_millis(700);
/// Runs at least this long repeat the recovery drills.
const LONG: Duration = Duration::from_secs(180);

/// Performs a run; returns its report.
pub async fn run(
    options: &TortureOptions,
    kinds: &[FaultKind],
    seed: u64,
) -> (TortureReport, Arc<TortureStage>) {
    let chance = TortureRandom::from_seed(seed);
    let stage = TortureStage::start(options).await;
    let supervisor = ProcessSupervisor::supervise_stage(Arc::clone(&stage));
    let record = PostRecord::default();
    apply_definitions(&stage).await;
    let began = Instant::now();
    let load = TortureLoad::start(&stage, &record, &chance, options.rate);
    tokio::time::sleep(WARM_UP).await;

    let (broken, delays) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let mut recoveries = Vec::new();
    if !options.no_drills {
        let rounds = if options.length >= LONG { 3 } else { 1 };
        for drill in RecoveryDrill::ALL.iter().cycle().take(rounds * RecoveryDrill::ALL.len()) {
            match drill::run_drill(*drill, &stage, &record).await {
                Ok((recovery, violations)) => {
                    println!("recovery: {} in {:.2?} ({})", recovery.what, recovery.took, recovery.detail);
                    lock_mutex(&broken).extend(violations);
                    recoveries.push(recovery);
                }
                Err(why) => lock_mutex(&broken).push(TortureViolation::new_violation(
                    TortureCheck::Recovery,
                    format!("{drill:?}"),
                    why,
                )),
            }
        }
    }
    load.release_bombs();
    let until = Instant::now() + options.length;
    let lanes = FaultLane::ALL.iter().map(|lane| {
        let deck = FaultDeck::for_lane(*lane, kinds, &chance);
        inject_until(
            until,
            began,
            deck,
            FaultGround { stage: &stage, record: &record, broken: &broken, delays: &delays },
        )
    });
    let mut faults = futures::future::join_all(lanes).await.concat();
    if faults.is_empty() {
        tokio::time::sleep(until - Instant::now()).await;
    }
    load.finish().await;
    faults.sort_by_key(|fault| fault.at);

    // Poison may have to be taken over as often as it may be tried, and more often where Redis lost it.
    let rounds = if stage.drills && options.plant.is_none() { 12 } else { 3 };
    let patience = options.patience + stage.deadlines.reclaim_idle * rounds;
    let (quiet_after, left) = quiet::until_quiet(&stage, patience).await;
    let mut violations = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    violations.extend(left);
    violations.extend(death_violations(&supervisor));
    violations.extend(replay_violations(&stage));
    let mut sql = stage.connect_postgres().await.expect("a quiet database");
    let history = TortureHistory::read_database(&mut sql).await.expect("read the history");
    let evidence = TortureEvidence {
        clients: record.lock_state().clone(),
        history,
        target: stage.sink.book(),
        stops: delays.into_inner().unwrap_or_else(PoisonError::into_inner),
        poison: stage.drills,
        clock_slack: i64::try_from(max_clock_slack(&stage).as_millis()).unwrap_or(0),
    };
    violations.extend(check::check_all(&evidence));
    let report = TortureReport {
        seed,
        length: began.elapsed(),
        faults,
        recoveries,
        quiet_after,
        violations,
        deaths: supervisor.deaths(),
        evidence,
    };
    (report, stage)
}

/// Maximum error of the times in the log. The database judges by its own clock when a timer is due; the log
/// contains the worker's estimate of it, which is as good as its round trip to the database was fast.
fn max_clock_slack(stage: &TortureStage) -> Duration {
    if stage.drills { JUMP * 2 } else { ESTIMATE }
}

async fn apply_definitions(stage: &TortureStage) {
    for definition in definitions::all_definitions(&stage.target_url()) {
        let url = format!("{}/v1/definitions", stage.ingress_url(0));
        let request = stage.http.post(url).header("content-type", "application/yaml").body(definition);
        let answer = request.send().await.expect("a door that answers");
        let (status, body) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "a definition was refused with {status}: {body}");
    }
}

async fn inject_until(
    until: Instant,
    began: Instant,
    mut deck: FaultDeck,
    ground: FaultGround<'_>,
) -> Vec<InjectedFault> {
    let mut faults = Vec::new();
    while Instant::now() < until {
        let Some((kind, mut chance)) = deck.deal_fault() else { break };
        let pause = Duration::from_millis(200 + chance.below(1_500));
        let fault = if kind.is_alone() {
            let _alone = ground.stage.alone.write().await;
            inject_recorded(kind, began, &ground, &mut chance).await
        } else {
            let _shared = ground.stage.alone.read().await;
            inject_recorded(kind, began, &ground, &mut chance).await
        };
        faults.push(fault);
        tokio::time::sleep(pause).await;
    }
    faults
}

async fn inject_recorded(
    kind: FaultKind,
    began: Instant,
    ground: &FaultGround<'_>,
    chance: &mut TortureRandom,
) -> InjectedFault {
    let from = Instant::now();
    let bite = faults::inject_fault(kind, ground, chance).await;
    let fault = InjectedFault { kind, at: from - began, began: from, ended: Instant::now(), bite };
    match &fault.bite {
        Ok(seen) => println!("{:7.1} s  {:22} {seen}", fault.at.as_secs_f64(), kind.name()),
        Err(why) => println!("{:7.1} s  {:22} did not bite: {why}", fault.at.as_secs_f64(), kind.name()),
    }
    fault
}

/// Processes that died without being killed by the run.
fn death_violations(supervisor: &ProcessSupervisor) -> Vec<TortureViolation> {
    let deaths = supervisor.deaths();
    let own = deaths.iter().filter(|death| death.cause == DeathCause::Itself);
    own.map(|death| {
        TortureViolation::new_violation(
            TortureCheck::Processes,
            &death.process,
            format!("died by itself: {}", death.how),
        )
    })
    .collect()
}

/// C4, by the engine's own command.
fn replay_violations(stage: &TortureStage) -> Vec<TortureViolation> {
    let output = stage.command().args(["replay", "--all", "--check"]).output().expect("run the binary");
    if output.status.success() {
        return Vec::new();
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().take(20).collect();
    vec![TortureViolation::new_violation(TortureCheck::Replay, "replay --all --check", lines.join("; "))]
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
