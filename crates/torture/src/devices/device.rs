//! One device: it registers, sends heartbeats, requests work, performs it, and misbehaves at random.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_devices::claim::{RunInputKind, SeatStatus};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::memory::{DeviceMemory, SeatPlace};
use super::plan;
use super::record::{DeviceAct, DeviceAnswer, DeviceRecord, unix_millis};
use super::wire::{DeviceNetwork, DeviceReply, DeviceWire};
use super::work::{self, AssignedSeat};
use crate::chance::TortureRandom;

const BEAT: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_millis(200);
/// Long-poll time of a request for work, in seconds.
const WAIT: u64 = 5;

/// Phase of the torture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TorturePhase {
    /// All faults may occur.
    Wild,
    /// No faults, so that open runs end.
    Calm,
    Over,
}

/// Identity of a device over all its incarnations.
#[derive(Debug)]
pub(super) struct SimulatedDevice {
    pub(super) name: String,
    pub(super) wire: DeviceWire,
    pub(super) memory: DeviceMemory,
    pub(super) record: DeviceRecord,
    pub(super) phase: watch::Receiver<TorturePhase>,
    description: Value,
    seed: TortureRandom,
    draws: AtomicU64,
}

impl SimulatedDevice {
    pub(super) fn new(
        number: usize,
        doors: &[String],
        record: &DeviceRecord,
        phase: watch::Receiver<TorturePhase>,
        seed: &TortureRandom,
    ) -> Self {
        let name = plan::device_name(number);
        let seed = seed.for_the(&name);
        let description = plan::describe_device(number, &mut seed.for_the("description"));
        let wire = DeviceWire::to_ingresses(doors, number, record);
        let (memory, record) = (DeviceMemory::default(), record.clone());
        Self { name, wire, memory, record, phase, description, seed, draws: AtomicU64::new(0) }
    }

    pub(super) fn may_fault(&self) -> bool {
        *self.phase.borrow() == TorturePhase::Wild
    }

    fn is_over(&self) -> bool {
        *self.phase.borrow() == TorturePhase::Over
    }

    /// Randomness for one assignment.
    fn chance(&self) -> TortureRandom {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        self.seed.for_the(&format!("errand {draw}"))
    }
}

/// Lifetime of a device: one incarnation after another, until the torture is over.
pub(super) async fn live_device(body: Arc<SimulatedDevice>, invitations: mpsc::UnboundedReceiver<String>) {
    let mut chance = body.seed.for_the("fate");
    let invitations = Arc::new(tokio::sync::Mutex::new(invitations));
    while !body.is_over() {
        let mut tasks = JoinSet::new();
        tasks.spawn(take_work(Arc::clone(&body), Arc::clone(&invitations)));
        tasks.spawn(send_heartbeats(Arc::clone(&body)));
        let end = draw_fate(&body, &mut chance).await;
        // All tasks stop immediately, requests in progress too.
        drop(tasks);
        if let Some(down) = end {
            tokio::time::sleep(down).await;
        }
    }
}

/// Faults of one incarnation until it goes down, and the length of its downtime. `None` at the end of the
/// torture.
async fn draw_fate(body: &SimulatedDevice, chance: &mut TortureRandom) -> Option<Duration> {
    let mut phase = body.phase.clone();
    loop {
        let quiet = Duration::from_millis(1_500 + chance.below(7_000));
        tokio::select! {
            () = tokio::time::sleep(quiet) => {}
            _ = phase.wait_for(|phase| *phase == TorturePhase::Over) => return None,
        }
        if !body.may_fault() {
            continue;
        }
        let short = Duration::from_millis(300 + chance.below(2_000));
        let long = Duration::from_millis(2_500 + chance.below(3_000));
        let length = if chance.percent(40) { short } else { long };
        match chance.below(100) {
            0..20 => {
                body.record.record_fault("crashed");
                return Some(length);
            }
            20..40 => {
                body.record.record_fault("crashed and forgot");
                body.memory.clear();
                return Some(length);
            }
            40..62 => cut_network(body, chance, DeviceNetwork::CutOff, "cut off", length).await,
            62..78 => cut_network(body, chance, DeviceNetwork::Deaf, "deaf", length).await,
            78..90 => cut_network(body, chance, DeviceNetwork::Slow, "slow network", length).await,
            _ => {
                body.record.record_fault("left");
                let path = format!("/v1/devices/{}", body.name);
                body.wire.send(Method::DELETE, &path, None, Duration::ZERO).await;
                if chance.percent(50) {
                    body.memory.clear();
                }
                return Some(length);
            }
        }
    }
}

/// Disconnects for a while; afterwards it sometimes claims the seats that it believes to hold.
async fn cut_network(
    body: &SimulatedDevice,
    chance: &mut TortureRandom,
    network: DeviceNetwork,
    name: &'static str,
    length: Duration,
) {
    body.record.record_fault(name);
    body.wire.set_network(network);
    tokio::time::sleep(length).await;
    body.wire.set_network(DeviceNetwork::Whole);
    if chance.percent(60) {
        claim_again(body).await;
    }
}

async fn claim_again(body: &SimulatedDevice) {
    for (place, hold) in body.memory.all_holds() {
        body.record.record_fault("offline claim");
        match work::ask_once(body, RunInputKind::OfflineClaim, &place, hold.token, json!({})).await {
            // The device never lost the seat.
            DeviceAnswer::Done { token } if token == Some(hold.token) => {}
            // Under another token the seat is among its assignments.
            DeviceAnswer::Done { .. } | DeviceAnswer::Refused { .. } => {
                body.memory.forget(&place, hold.token)
            }
            DeviceAnswer::Nothing => {}
        }
    }
}

async fn register_device(body: &SimulatedDevice) {
    let path = format!("/v1/devices/{}", body.name);
    loop {
        let reply = body.wire.send(Method::PUT, &path, Some(&body.description), Duration::ZERO).await;
        if matches!(reply, DeviceReply::Answered { status: 200, .. }) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends heartbeats and processes losses in the answers.
async fn send_heartbeats(body: Arc<SimulatedDevice>) {
    let path = format!("/v1/devices/{}/heartbeat", body.name);
    loop {
        let holds = body.memory.all_holds();
        let run = |((run, seat), hold): &(SeatPlace, super::memory::SeatHold)| {
            let mut beat = json!({ "run_id": run, "seat": seat, "token": hold.token });
            if hold.step > 0 {
                beat["progress"] = json!({ "step": hold.step, "total": hold.total });
            }
            beat
        };
        let runs: Vec<Value> = holds.iter().map(run).collect();
        let sent = unix_millis();
        let reply = body.wire.post(&path, &json!({ "load": 0.1, "runs": runs })).await;
        if let DeviceReply::Answered { status, body: answer } = reply {
            if status == 404 {
                register_device(&body).await;
            }
            let heard = answer["runs"].as_array().map_or(&[][..], Vec::as_slice);
            for ((place, hold), heard) in holds.iter().zip(heard) {
                let is_theirs = heard["held"].as_bool().unwrap_or(false);
                let told = if is_theirs {
                    DeviceAnswer::Done { token: Some(hold.token) }
                } else {
                    body.memory.forget(place, hold.token);
                    DeviceAnswer::Refused { kind: "release".to_owned() }
                };
                note_beat(&body, place, hold.token, sent, told);
            }
        }
        tokio::time::sleep(BEAT).await;
    }
}

fn note_beat(body: &SimulatedDevice, place: &SeatPlace, token: i64, sent: i64, told: DeviceAnswer) {
    let (run, seat) = place.clone();
    let (device, word, answered) = (body.name.clone(), RunInputKind::Heartbeat, unix_millis());
    body.record.lock_state().acts.push(DeviceAct { device, run, seat, token, word, sent, answered, told });
}

/// Takes offers, its previous assignments, and invitations.
async fn take_work(
    body: Arc<SimulatedDevice>,
    invitations: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>>,
) {
    register_device(&body).await;
    // Aborted with this task, which ends with the incarnation.
    let mut errands = JoinSet::new();
    let mut known: BTreeSet<(SeatPlace, i64)> = BTreeSet::new();
    for (place, hold) in body.memory.all_holds() {
        known.insert((place.clone(), hold.token));
        let (step, total) = (hold.step, hold.total);
        let status = if step > 0 { SeatStatus::Processing } else { SeatStatus::Claimed };
        let pace = Duration::from_millis(100);
        let errand = AssignedSeat { place, token: hold.token, status, step, total, pace };
        errands.spawn(work::run_assignment(Arc::clone(&body), body.chance(), errand));
    }
    let mut invitations = invitations.lock().await;
    let mut version = String::new();
    loop {
        let path = format!("/v1/devices/{}/assignments?wait={WAIT}&if_version={version}", body.name);
        tokio::select! {
            reply = body.wire.get(&path, Duration::from_secs(WAIT)) => match reply {
                DeviceReply::Answered { status: 200, body: answer } => {
                    version = answer["version"].as_str().unwrap_or_default().to_owned();
                    for item in answer["items"].as_array().into_iter().flatten() {
                        let Some(errand) = AssignedSeat::parse_assignment(item) else { continue };
                        if known.insert((errand.place.clone(), errand.token)) {
                            errands.spawn(work::run_assignment(Arc::clone(&body), body.chance(), errand));
                        }
                    }
                }
                DeviceReply::Answered { .. } | DeviceReply::Nothing | DeviceReply::Unsent => tokio::time::sleep(PAUSE).await,
            },
            Some(run) = invitations.recv() => {
                let place = (run, 0);
                // The result is among its assignments from then on.
                errands.spawn({
                    let body = Arc::clone(&body);
                    async move { drop(work::ask_once(&body, RunInputKind::SelfClaim, &place, 0, json!({})).await) }
                });
            }
        }
        while errands.try_join_next().is_some() {}
    }
}
