//! One torture of neighbours, from the start of the processes to the verdict.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::attack::Attack;
use super::attacks::{self, AttackScene, NoisyTenant};
use super::check::{self, NeighbourBounds, NeighbourFinding};
use super::engine::FleetUnderTest;
use super::figures::AttackFigures;
use super::honest::HonestTenant;
use super::options::NeighbourOptions;
use super::probe;
use super::report::NeighbourReport;
use super::target::ActionTarget;
use crate::chance::Chance;

/// How long probes may take.
const HEALTH: Duration = Duration::from_secs(1);
/// Between two attacks, so that the figures of one are not those of the one before.
const REST: Duration = Duration::from_secs(2);

pub async fn run(options: &NeighbourOptions, seed: u64) -> NeighbourReport {
    let chance = Chance::of(seed);
    let bounds = NeighbourBounds {
        accept_p99: options.accept_p99,
        action_p99: options.action_p99,
        health: HEALTH,
        memory_kib: options.memory_mib * 1024,
    };
    let began = Instant::now();
    let target = ActionTarget::start().await;
    let fleet = Arc::new(FleetUnderTest::start(&options.binary, options.workers).await);
    let honest = HonestTenant::prepare(fleet.honest(), &target, options.rate).await;
    let noisy = Arc::new(NoisyTenant::prepare(&fleet.hostile()).await);

    let mut findings = Vec::new();
    let mut all = Vec::new();
    for attack in options.attacks().unwrap_or_default() {
        let tarpit = target.url("/tarpit/1");
        let drawn = chance.for_the(attack.name());
        let scene = AttackScene::new(&fleet, &noisy, tarpit, options.burst, options.length, drawn);
        let (figures, ended) = hold(attack, &scene, &honest, &target, options.patience).await;
        findings.extend(ended.into_iter().map(|ended| NeighbourFinding::of("a process", ended)));
        findings.extend(check::check_attack(&figures, &bounds));
        NeighbourReport::print_figures(&figures);
        all.push(figures);
        tokio::time::sleep(REST).await;
    }
    findings.extend(attacks::verify_nothing_lost(&fleet, &noisy, options.patience).await);
    let peaks = fleet.memory_peaks_kib().await;
    findings.extend(check::check_memory(&peaks, &bounds));
    let outputs = fleet.outputs().await;
    let panics = outputs.lines().filter(|line| line.contains("panicked at"));
    findings.extend(panics.map(|line| NeighbourFinding::of("a process", line)));
    NeighbourReport { seed, took: began.elapsed(), figures: all, memory_peaks_kib: peaks, findings, outputs }
}

/// Makes one attack while the honest tenant works and probes ask.
async fn hold(
    attack: Attack,
    scene: &AttackScene,
    honest: &Arc<HonestTenant>,
    target: &ActionTarget,
    patience: Duration,
) -> (AttackFigures, Vec<String>) {
    let (over, is_over) = watch::channel(false);
    let attacking = async {
        attacks::perform(attack, scene).await;
        over.send_replace(true);
    };
    let working = Arc::clone(honest).drive(target, is_over.clone(), patience);
    let probing = probe::probe(Arc::clone(&scene.fleet), is_over.clone());
    let ((), worked, probed) = futures::future::join3(attacking, working, probing).await;
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
