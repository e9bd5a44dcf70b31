//! One run, from the start of the fleet to the verdict.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::check::{self, Check, Evidence, Violation};
use crate::deck::Deck;
use crate::drill::{self, Drill};
use crate::faults::{self, Ground, Injected};
use crate::history::History;
use crate::kind::{Kind, Lane};
use crate::load::{Load, Record, definitions};
use crate::options::Options;
use crate::quiet;
use crate::report::Report;
use crate::stage::{Cause, JUMP, Stage, Supervisor};

/// Time before the first fault, to build up load.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longer than the slowest answer of a bad network.
const ESTIMATE: Duration = Duration::from_millis(700);
/// Runs at least this long repeat the recovery drills.
const LONG: Duration = Duration::from_secs(180);

/// Performs a run; returns its report.
pub async fn run(options: &Options, kinds: &[Kind], seed: u64) -> (Report, Arc<Stage>) {
    let chance = Chance::of(seed);
    let stage = Stage::start(options).await;
    let supervisor = Supervisor::over(Arc::clone(&stage));
    let record = Record::default();
    apply_definitions(&stage).await;
    let began = Instant::now();
    let load = Load::start(&stage, &record, &chance, options.rate);
    tokio::time::sleep(WARM_UP).await;

    let (broken, delays) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let mut recoveries = Vec::new();
    if !options.no_drills {
        let rounds = if options.length >= LONG { 3 } else { 1 };
        for drill in Drill::ALL.iter().cycle().take(rounds * Drill::ALL.len()) {
            match drill::hold(*drill, &stage, &record).await {
                Ok((recovery, violations)) => {
                    println!("recovery: {} in {:.2?} ({})", recovery.what, recovery.took, recovery.detail);
                    lock(&broken).extend(violations);
                    recoveries.push(recovery);
                }
                Err(why) => lock(&broken).push(Violation::of(Check::Recovery, format!("{drill:?}"), why)),
            }
        }
    }
    load.release_bombs();
    let until = Instant::now() + options.length;
    let lanes = Lane::ALL.iter().map(|lane| {
        let deck = Deck::of(*lane, kinds, &chance);
        inject_until(
            until,
            began,
            deck,
            Ground { stage: &stage, record: &record, broken: &broken, delays: &delays },
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
    violations.extend(deaths(&supervisor));
    violations.extend(replay(&stage));
    let mut sql = stage.sql().await.expect("a quiet database");
    let history = History::read(&mut sql).await.expect("read the history");
    let evidence = Evidence {
        clients: record.write().clone(),
        history,
        target: stage.sink.book(),
        stops: delays.into_inner().unwrap_or_else(PoisonError::into_inner),
        poison: stage.drills,
        clock_slack: i64::try_from(slack(&stage).as_millis()).unwrap_or(0),
    };
    violations.extend(check::all(&evidence));
    let report = Report {
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
fn slack(stage: &Stage) -> Duration {
    if stage.drills { JUMP * 2 } else { ESTIMATE }
}

async fn apply_definitions(stage: &Stage) {
    for definition in definitions::all(&stage.target()) {
        let url = format!("{}/v1/definitions", stage.door(0));
        let request = stage.http.post(url).header("content-type", "application/yaml").body(definition);
        let answer = request.send().await.expect("a door that answers");
        let (status, body) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "a definition was refused with {status}: {body}");
    }
}

async fn inject_until(until: Instant, began: Instant, mut deck: Deck, ground: Ground<'_>) -> Vec<Injected> {
    let mut faults = Vec::new();
    while Instant::now() < until {
        let Some((kind, mut chance)) = deck.deal() else { break };
        let pause = Duration::from_millis(200 + chance.below(1_500));
        let fault = if kind.is_alone() {
            let _alone = ground.stage.alone.write().await;
            inject(kind, began, &ground, &mut chance).await
        } else {
            let _shared = ground.stage.alone.read().await;
            inject(kind, began, &ground, &mut chance).await
        };
        faults.push(fault);
        tokio::time::sleep(pause).await;
    }
    faults
}

async fn inject(kind: Kind, began: Instant, ground: &Ground<'_>, chance: &mut Chance) -> Injected {
    let from = Instant::now();
    let bite = faults::inject(kind, ground, chance).await;
    let fault = Injected { kind, at: from - began, began: from, ended: Instant::now(), bite };
    match &fault.bite {
        Ok(seen) => println!("{:7.1} s  {:22} {seen}", fault.at.as_secs_f64(), kind.name()),
        Err(why) => println!("{:7.1} s  {:22} did not bite: {why}", fault.at.as_secs_f64(), kind.name()),
    }
    fault
}

/// Processes that died without being killed by the run.
fn deaths(supervisor: &Supervisor) -> Vec<Violation> {
    let deaths = supervisor.deaths();
    let own = deaths.iter().filter(|death| death.cause == Cause::Itself);
    own.map(|death| Violation::of(Check::Processes, &death.process, format!("died by itself: {}", death.how)))
        .collect()
}

/// C4, by the engine's own command.
fn replay(stage: &Stage) -> Vec<Violation> {
    let output = stage.command().args(["replay", "--all", "--check"]).output().expect("run the binary");
    if output.status.success() {
        return Vec::new();
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().take(20).collect();
    vec![Violation::of(Check::Replay, "replay --all --check", lines.join("; "))]
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
