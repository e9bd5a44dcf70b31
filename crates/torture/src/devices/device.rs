//! One device: it registers, sends heartbeats, requests work, performs it, and misbehaves at random.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_core::claim::{Status, Word};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::memory::{Memory, Place};
use super::plan;
use super::record::{Act, Record, Told, now};
use super::wire::{Network, Reply, Wire};
use super::work::{self, Errand};
use crate::chance::Chance;

const BEAT: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_millis(200);
/// Long-poll time of a request for work, in seconds.
const WAIT: u64 = 5;

/// Phase of the torture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// All faults may occur.
    Wild,
    /// No faults, so that open runs end.
    Calm,
    Over,
}

/// Identity of a device over all its incarnations.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) name: String,
    pub(super) wire: Wire,
    pub(super) memory: Memory,
    pub(super) record: Record,
    pub(super) phase: watch::Receiver<Phase>,
    description: Value,
    seed: Chance,
    draws: AtomicU64,
}

impl Body {
    pub(super) fn new(
        number: usize,
        doors: &[String],
        record: &Record,
        phase: watch::Receiver<Phase>,
        seed: &Chance,
    ) -> Self {
        let name = plan::name(number);
        let seed = seed.for_the(&name);
        let description = plan::describe(number, &mut seed.for_the("description"));
        let wire = Wire::to(doors, number, record);
        let (memory, record) = (Memory::default(), record.clone());
        Self { name, wire, memory, record, phase, description, seed, draws: AtomicU64::new(0) }
    }

    pub(super) fn may_fault(&self) -> bool {
        *self.phase.borrow() == Phase::Wild
    }

    fn is_over(&self) -> bool {
        *self.phase.borrow() == Phase::Over
    }

    /// Randomness for one assignment.
    fn chance(&self) -> Chance {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        self.seed.for_the(&format!("errand {draw}"))
    }
}

/// Lifetime of a device: one incarnation after another, until the torture is over.
pub(super) async fn live(body: Arc<Body>, invitations: mpsc::UnboundedReceiver<String>) {
    let mut chance = body.seed.for_the("fate");
    let invitations = Arc::new(tokio::sync::Mutex::new(invitations));
    while !body.is_over() {
        let mut tasks = JoinSet::new();
        tasks.spawn(take_work(Arc::clone(&body), Arc::clone(&invitations)));
        tasks.spawn(beat(Arc::clone(&body)));
        let end = fate(&body, &mut chance).await;
        // All tasks stop immediately, requests in progress too.
        drop(tasks);
        if let Some(down) = end {
            tokio::time::sleep(down).await;
        }
    }
}

/// Faults of one incarnation until it goes down, and the length of its downtime. `None` at the end of the
/// torture.
async fn fate(body: &Body, chance: &mut Chance) -> Option<Duration> {
    let mut phase = body.phase.clone();
    loop {
        let quiet = Duration::from_millis(1_500 + chance.below(7_000));
        tokio::select! {
            () = tokio::time::sleep(quiet) => {}
            _ = phase.wait_for(|phase| *phase == Phase::Over) => return None,
        }
        if !body.may_fault() {
            continue;
        }
        let short = Duration::from_millis(300 + chance.below(2_000));
        let long = Duration::from_millis(2_500 + chance.below(3_000));
        let length = if chance.percent(40) { short } else { long };
        match chance.below(100) {
            0..20 => {
                body.record.fault("crashed");
                return Some(length);
            }
            20..40 => {
                body.record.fault("crashed and forgot");
                body.memory.clear();
                return Some(length);
            }
            40..62 => cut(body, chance, Network::CutOff, "cut off", length).await,
            62..78 => cut(body, chance, Network::Deaf, "deaf", length).await,
            78..90 => cut(body, chance, Network::Slow, "slow network", length).await,
            _ => {
                body.record.fault("left");
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
async fn cut(body: &Body, chance: &mut Chance, network: Network, name: &'static str, length: Duration) {
    body.record.fault(name);
    body.wire.becomes(network);
    tokio::time::sleep(length).await;
    body.wire.becomes(Network::Whole);
    if chance.percent(60) {
        claim_again(body).await;
    }
}

async fn claim_again(body: &Body) {
    for (place, hold) in body.memory.holds() {
        body.record.fault("offline claim");
        match work::ask(body, Word::OfflineClaim, &place, hold.token, json!({})).await {
            // The device never lost the seat.
            Told::Done { token } if token == Some(hold.token) => {}
            // Under another token the seat is among its assignments.
            Told::Done { .. } | Told::Refused { .. } => body.memory.forget(&place, hold.token),
            Told::Nothing => {}
        }
    }
}

async fn register(body: &Body) {
    let path = format!("/v1/devices/{}", body.name);
    loop {
        let reply = body.wire.send(Method::PUT, &path, Some(&body.description), Duration::ZERO).await;
        if matches!(reply, Reply::Answered { status: 200, .. }) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends heartbeats and processes losses in the answers.
async fn beat(body: Arc<Body>) {
    let path = format!("/v1/devices/{}/heartbeat", body.name);
    loop {
        let holds = body.memory.holds();
        let run = |((run, seat), hold): &(Place, super::memory::Hold)| {
            let mut beat = json!({ "run_id": run, "seat": seat, "token": hold.token });
            if hold.step > 0 {
                beat["progress"] = json!({ "step": hold.step, "total": hold.total });
            }
            beat
        };
        let runs: Vec<Value> = holds.iter().map(run).collect();
        let sent = now();
        let reply = body.wire.post(&path, &json!({ "load": 0.1, "runs": runs })).await;
        if let Reply::Answered { status, body: answer } = reply {
            if status == 404 {
                register(&body).await;
            }
            let heard = answer["runs"].as_array().map_or(&[][..], Vec::as_slice);
            for ((place, hold), heard) in holds.iter().zip(heard) {
                let is_theirs = heard["yours"].as_bool().unwrap_or(false);
                let told = if is_theirs {
                    Told::Done { token: Some(hold.token) }
                } else {
                    body.memory.forget(place, hold.token);
                    Told::Refused { kind: "release".to_owned() }
                };
                note_beat(&body, place, hold.token, sent, told);
            }
        }
        tokio::time::sleep(BEAT).await;
    }
}

fn note_beat(body: &Body, place: &Place, token: i64, sent: i64, told: Told) {
    let (run, seat) = place.clone();
    let (device, word, answered) = (body.name.clone(), Word::Heartbeat, now());
    body.record.write().acts.push(Act { device, run, seat, token, word, sent, answered, told });
}

/// Takes offers, its previous assignments, and invitations.
async fn take_work(body: Arc<Body>, invitations: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>>) {
    register(&body).await;
    // Aborted with this task, which ends with the incarnation.
    let mut errands = JoinSet::new();
    let mut known: BTreeSet<(Place, i64)> = BTreeSet::new();
    for (place, hold) in body.memory.holds() {
        known.insert((place.clone(), hold.token));
        let (step, total) = (hold.step, hold.total);
        let status = if step > 0 { Status::Processing } else { Status::Claimed };
        let pace = Duration::from_millis(100);
        let errand = Errand { place, token: hold.token, status, step, total, pace };
        errands.spawn(work::run(Arc::clone(&body), body.chance(), errand));
    }
    let mut invitations = invitations.lock().await;
    let mut mark = String::new();
    loop {
        let path = format!("/v1/devices/{}/assignments?wait={WAIT}&seen={mark}", body.name);
        tokio::select! {
            reply = body.wire.get(&path, Duration::from_secs(WAIT)) => match reply {
                Reply::Answered { status: 200, body: answer } => {
                    mark = answer["mark"].as_str().unwrap_or_default().to_owned();
                    for item in answer["items"].as_array().into_iter().flatten() {
                        let Some(errand) = Errand::read(item) else { continue };
                        if known.insert((errand.place.clone(), errand.token)) {
                            errands.spawn(work::run(Arc::clone(&body), body.chance(), errand));
                        }
                    }
                }
                Reply::Answered { .. } | Reply::Nothing | Reply::Unsent => tokio::time::sleep(PAUSE).await,
            },
            Some(run) = invitations.recv() => {
                let place = (run, 0);
                // The result is among its assignments from then on.
                errands.spawn({
                    let body = Arc::clone(&body);
                    async move { drop(work::ask(&body, Word::SelfClaim, &place, 0, json!({})).await) }
                });
            }
        }
        while errands.try_join_next().is_some() {}
    }
}
