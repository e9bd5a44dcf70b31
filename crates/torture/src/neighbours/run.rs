//! One neighbour torture, from the start of the processes to the verdict.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::attack::NeighbourAttack;
use super::attacks::{self, AttackLedger, AttackScene, NoisyTenant, applied_at_quota};
use super::check::{self, NeighbourBounds, NeighbourFinding};
use super::engine::FleetUnderTest;
use super::figures::AttackFigures;
use super::honest::HonestTenant;
use super::options::NeighbourOptions;
use super::probe;
use super::report::NeighbourReport;
use super::settle;
use super::settled::{QuotaOutcome, check_quota};
use super::target::{ActionTarget, HostileTarget};
use super::threads::TaskThreads;
use crate::chance::TortureRandom;

/// Maximum pause between two attacks (or a quarter of an attack), so that figures of one do not affect the
/// next.
const REST: Duration = Duration::from_secs(2);

pub async fn run(options: &NeighbourOptions, seed: u64) -> NeighbourReport {
    let chance = TortureRandom::from_seed(seed);
    let bounds = NeighbourBounds {
        accept_p99: options.accept_p99,
        action_p99: options.action_p99,
        health: options.health,
        memory_kib: options.memory_mib * 1024,
    };
    let began = Instant::now();
    let (measuring, attacking) = (TaskThreads::measuring(), TaskThreads::attacking());
    let target = Arc::new(measuring.run(ActionTarget::start()).await);
    let fleet = Arc::new(FleetUnderTest::start(&options.binary, options.workers).await);
    let honest = HonestTenant::prepare_tenant(fleet.honest_client(), &target, options.rate).await;
    let noisy = Arc::new(NoisyTenant::prepare_tenant(&fleet.hostile).await);
    let hostile_target = attacking.run(HostileTarget::start()).await;
    let ledger = Arc::new(AttackLedger::default());

    let mut findings = Vec::new();
    let mut all = Vec::new();
    for attack in options.attacks().unwrap_or_default() {
        let drawn = chance.for_the(attack.name());
        let scene = AttackScene::new(&fleet, &noisy, &ledger, &hostile_target, options, drawn);
        let (figures, ended) =
            hold_attack(attack, &scene, &honest, &target, (&measuring, &attacking), options.patience).await;
        findings.extend(ended.into_iter().map(|ended| NeighbourFinding::new_finding("a process", ended)));
        findings.extend(check::check_attack(&figures, &bounds));
        NeighbourReport::print_figures(&figures);
        if attack == NeighbourAttack::AtQuota {
            findings.extend(verify_quota(&fleet, &scene.quota_outcome(), options.patience).await);
        }
        all.push(figures);
        tokio::time::sleep(REST.min(options.length / 4)).await;
    }
    findings.extend(attacks::verify_nothing_lost(&fleet, &noisy, options.patience).await);
    findings.extend(settle::verify_settled(&fleet, &ledger, options.patience).await);
    let peaks = fleet.memory_peaks_kib().await;
    findings.extend(check::check_memory(&peaks, &bounds));
    let outputs = fleet.outputs().await;
    let panics = outputs.lines().filter(|line| line.contains("panicked at"));
    findings.extend(panics.map(|line| NeighbourFinding::new_finding("a process", line)));
    NeighbourReport { seed, took: began.elapsed(), figures: all, memory_peaks_kib: peaks, findings, outputs }
}

/// Waits until all events accepted at the quota are applied, at most `patience`.
async fn verify_quota(
    fleet: &FleetUnderTest,
    outcome: &QuotaOutcome,
    patience: Duration,
) -> Vec<NeighbourFinding> {
    let until = Instant::now() + patience;
    loop {
        let applied = applied_at_quota(&fleet.hostile).await;
        if applied >= outcome.accepted || Instant::now() > until {
            return check_quota(outcome, applied);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Performs one attack while the honest tenant works and probes run.
async fn hold_attack(
    attack: NeighbourAttack,
    scene: &AttackScene,
    honest: &Arc<HonestTenant>,
    target: &Arc<ActionTarget>,
    (measuring, attacking): (&TaskThreads, &TaskThreads),
    patience: Duration,
) -> (AttackFigures, Vec<String>) {
    let (over, is_over) = watch::channel(false);
    let attackers = scene.clone();
    let attack_until_over = attacking.run(async move {
        attacks::perform_attack(attack, &attackers).await;
        over.send_replace(true);
    });
    let working = measuring.run(Arc::clone(honest).drive_load(Arc::clone(target), is_over.clone(), patience));
    let probing = measuring.run(probe::probe_fleet(Arc::clone(&scene.fleet), is_over.clone()));
    let ((), worked, probed) = futures::future::join3(attack_until_over, working, probing).await;
    let figures = AttackFigures {
        attack,
        sent: worked.sent,
        accept: worked.accept,
        action: worked.action,
        refused: worked.refused,
        lost: worked.lost,
        health: probed.latency,
        health_failures: probed.failures,
        tally: scene.tally(),
    };
    (figures, probed.ended)
}
