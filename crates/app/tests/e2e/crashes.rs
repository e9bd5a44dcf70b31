//! Processes that die at the worst moments. Every accepted event is decided exactly once, and every action is
//! performed at least once under one key, without manual repair.
//!
//! The crash points are compiled into builds with debug assertions and chosen by environment.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_testkit::client::{TestReply, try_send};
use millstream_testkit::{FleetMode, TestSink, eventually};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::api::text_field;
use crate::definitions::definition_with_sink;
use crate::world::{E2eWorld, SOON, start_world};

both_modes!(
    worker_crash_before_commit_loses_nothing,
    worker_crash_before_ack_repeats_nothing,
    worker_crash_before_action_hands_it_over,
    worker_crash_before_settle_repeats_same_key,
    ingress_crash_before_ring_loses_nothing,
    ingress_crash_before_answer_loses_nothing,
    poison_event_becomes_dead_letter,
);

const EVENTS: usize = 5;

const CRASHING: &str = r"
name: crashing
initial: a
context: { n: 0, seen: [] }
states:
  a:
    on:
      add:
        set: { n: context.n + 1, seen: 'context.seen + [event.payload.i]' }
        do: [call]
      stop: { to: z }
  z: { final: true }
actions:
  call:
    http: { method: POST, url: SINK/call, body: { i: event.payload.i } }
    retry: { attempts: 5, backoff: 20ms, max: 100ms }
";

struct CrashScene {
    world: E2eWorld,
    sink: TestSink,
    execution: String,
}

/// An engine without workers (a fleet), or one that can be started again (embedded).
async fn crash_scene(mode: FleetMode) -> CrashScene {
    let sink = TestSink::start().await;
    let mode = match mode {
        FleetMode::Embedded => mode,
        FleetMode::Fleet { .. } => FleetMode::Fleet { workers: 0 },
    };
    let world = start_world(mode).await;
    world.api.apply(&definition_with_sink(CRASHING, &sink)).await;
    let execution = world.api.start("crashing", json!({})).await;
    CrashScene { world, sink, execution }
}

impl CrashScene {
    /// Posts one event under a key of its own; the answer may be lost with the process.
    async fn post(&self, i: usize) -> Result<TestReply, reqwest::Error> {
        let request = self
            .world
            .api
            .client
            .request(Method::POST, &format!("/v1/executions/{}/events", self.execution))
            .header("idempotency-key", format!("k-{i}"))
            .json(&json!({ "name": "add", "payload": { "i": i } }));
        try_send(request).await
    }

    /// Posts everything and lets a worker die at `point`, twice.
    async fn let_a_worker_die_at(&mut self, point: &str) {
        let crash = [("MILLSTREAM_CRASH_AT", point)];
        match self.world.fleet.mode() {
            FleetMode::Embedded => {
                assert!(self.world.fleet.stop_ingress().await.success());
                for i in 0..2 {
                    self.world.fleet.launch_ingress(&crash);
                    if i == 0 {
                        self.world.fleet.wait_ready().await;
                        // The process may die before it has answered.
                        drop(self.post(0).await);
                    }
                    assert_died_at(self.world.fleet.ingress().wait_for_exit(SOON).await, point);
                }
                self.world.fleet.start_ingress(&[]).await;
            }
            FleetMode::Fleet { .. } => {
                for i in 0..EVENTS {
                    self.post(i).await.expect("an answer").expect_status(202);
                }
                for _ in 0..2 {
                    let worker = self.world.fleet.start_worker(&crash);
                    assert_died_at(self.world.fleet.worker(worker).wait_for_exit(SOON).await, point);
                }
                self.world.fleet.start_worker(&[]);
            }
        }
    }

    /// Posts everything (again), and checks that the log has each event once and in order.
    async fn everything_is_decided_exactly_once(&self) {
        let api = &self.world.api;
        let mut posted = BTreeSet::new();
        for i in 0..EVENTS {
            let accepted = self.post(i).await.expect("an answer").expect_status(202);
            posted.insert(text_field(&accepted, "event_id"));
        }
        assert_eq!(posted.len(), EVENTS);
        for event in &posted {
            let settled = api.settled_event(event).await;
            assert_eq!(settled["status"], "completed", "{settled}");
        }
        let execution = api.execution(&self.execution).await;
        assert_eq!(execution["context"]["seen"], json!((0..EVENTS).collect::<Vec<_>>()), "{execution}");
        assert_eq!(execution["seq"], EVENTS + 1);
        let applied: BTreeSet<_> = api
            .list(&self.execution, "history")
            .await
            .iter()
            .skip(1)
            .map(|entry| text_field(entry, "event_id"))
            .collect();
        assert_eq!(applied, posted);
    }

    /// How often the target was called under each action's key.
    fn calls_by_key(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for call in self.sink.recorded_calls() {
            *calls.entry(call.header("idempotency-key").expect("a key").to_owned()).or_insert(0) += 1;
        }
        calls
    }
}

/// Checks that it died at the crash point and not for another reason.
#[track_caller]
fn assert_died_at(status: std::process::ExitStatus, point: &str) {
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{point}: {status}");
}

async fn worker_crash_before_commit_loses_nothing(mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    scene.let_a_worker_die_at("worker.before-commit").await;
    scene.everything_is_decided_exactly_once().await;
    assert_eq!(scene.calls_by_key().into_values().collect::<Vec<_>>(), [1; EVENTS], "each action ran once");
}

async fn worker_crash_before_ack_repeats_nothing(mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    // Each visit commits something, so that the second worker dies at its own commit: with one
    // event of an embedded engine there is nothing left to commit after the first.
    match mode {
        FleetMode::Embedded => scene.let_one_loop_die_at("worker.after-commit").await,
        FleetMode::Fleet { .. } => scene.let_one_worker_die_at("worker.after-commit").await,
    }
    scene.everything_is_decided_exactly_once().await;
    assert_eq!(scene.calls_by_key().len(), EVENTS);
}

impl CrashScene {
    async fn let_one_loop_die_at(&mut self, point: &str) {
        assert!(self.world.fleet.stop_ingress().await.success());
        self.world.fleet.start_ingress(&[("MILLSTREAM_CRASH_AT", point)]).await;
        drop(self.post(0).await);
        assert_died_at(self.world.fleet.ingress().wait_for_exit(SOON).await, point);
        self.world.fleet.start_ingress(&[]).await;
    }

    async fn let_one_worker_die_at(&mut self, point: &str) {
        for i in 0..EVENTS {
            self.post(i).await.expect("an answer").expect_status(202);
        }
        let worker = self.world.fleet.start_worker(&[("MILLSTREAM_CRASH_AT", point)]);
        assert_died_at(self.world.fleet.worker(worker).wait_for_exit(SOON).await, point);
        self.world.fleet.start_worker(&[]);
    }
}

async fn worker_crash_before_action_hands_it_over(mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    scene.let_a_worker_die_at("worker.before-action").await;
    assert_eq!(scene.sink.recorded_calls().len(), 0, "no worker reached the call");
    scene.everything_is_decided_exactly_once().await;
    assert_eq!(scene.calls_by_key().into_values().collect::<Vec<_>>(), [1; EVENTS]);
}

async fn worker_crash_before_settle_repeats_same_key(mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    scene.let_a_worker_die_at("worker.before-settle").await;
    scene.everything_is_decided_exactly_once().await;
    let calls = scene.calls_by_key();
    assert_eq!(calls.len(), EVENTS, "one key per action, however often it ran: {calls:?}");
    assert!(calls.values().any(|times| *times >= 2), "the crash did bite: {calls:?}");
    let mut tokens: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for call in scene.sink.recorded_calls() {
        let token = call.header("millstream-fencing-token").expect("a token").parse().expect("a number");
        tokens.entry(call.header("idempotency-key").unwrap().into()).or_default().push(token);
    }
    assert!(
        tokens.values().all(|tokens| tokens.is_sorted_by(|a, b| a < b)),
        "later attempts carry larger tokens: {tokens:?}"
    );
}

async fn ingress_crash_before_ring_loses_nothing(mode: FleetMode) {
    an_ingress_that_dies_at("ingress.before-ring", mode).await;
}

async fn ingress_crash_before_answer_loses_nothing(mode: FleetMode) {
    an_ingress_that_dies_at("ingress.before-answer", mode).await;
}

async fn an_ingress_that_dies_at(point: &str, mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    assert!(scene.world.fleet.stop_ingress().await.success());
    if mode != FleetMode::Embedded {
        scene.world.fleet.start_worker(&[]);
    }
    scene.world.fleet.start_ingress(&[("MILLSTREAM_CRASH_AT", point)]).await;
    assert!(scene.post(0).await.is_err(), "no answer comes from a dead process");
    assert_died_at(scene.world.fleet.ingress().wait_for_exit(SOON).await, point);
    scene.world.fleet.start_ingress(&[]).await;
    // The event is decided without a repeated post: it was durable before the process died.
    scene.world.api.execution_until(&scene.execution, |seen| seen["context"]["n"] == 1).await;
    scene.everything_is_decided_exactly_once().await;
}

/// The same event is in the way whenever a worker comes by; after some attempts it is put aside, and
/// others go on.
async fn poison_event_becomes_dead_letter(mode: FleetMode) {
    let mut scene = crash_scene(mode).await;
    let crash = [("MILLSTREAM_CRASH_AT", "worker.before-commit")];
    match mode {
        FleetMode::Embedded => {
            assert!(scene.world.fleet.stop_ingress().await.success());
            scene.world.fleet.start_ingress(&crash).await;
            // The process may die before it has answered.
            drop(scene.post(0).await);
            assert_died_at(scene.world.fleet.ingress().wait_for_exit(SOON).await, "worker.before-commit");
        }
        FleetMode::Fleet { .. } => drop(scene.post(0).await.expect("an answer").expect_status(202)),
    }
    // The cap is five; a worker that finds it reached buries the event instead of deciding it, and
    // lives on.
    let mut deaths = 0;
    loop {
        let survivor = match mode {
            FleetMode::Embedded => {
                scene.world.fleet.launch_ingress(&crash);
                scene.world.fleet.ingress()
            }
            FleetMode::Fleet { .. } => {
                let index = scene.world.fleet.start_worker(&crash);
                scene.world.fleet.worker(index)
            }
        };
        let path = format!("/v1/executions/{}", scene.execution);
        let (client, paused) = (&scene.world.api.client, AtomicBool::new(false));
        eventually(SOON, || {
            let exited = survivor.exit_status();
            let (request, paused) = (client.request(Method::GET, &path), &paused);
            async move {
                let seen = try_send(request).await.map(|reply| reply.body).unwrap_or_default();
                paused.store(seen.contains(r#""status":"paused""#), Ordering::Relaxed);
                if exited.is_some() || paused.load(Ordering::Relaxed) { Ok(()) } else { Err(seen) }
            }
        })
        .await;
        if paused.load(Ordering::Relaxed) {
            survivor.kill();
            break;
        }
        deaths += 1;
        assert!(deaths <= 10, "it goes on killing workers");
    }
    assert!(deaths >= 2, "one crash is no proof of poison");
    match mode {
        FleetMode::Embedded => scene.world.fleet.start_ingress(&[]).await,
        FleetMode::Fleet { .. } => drop(scene.world.fleet.start_worker(&[])),
    }
    let api = &scene.world.api;
    let event = text_field(&scene.post(0).await.expect("an answer").expect_status(202), "event_id");
    let buried = api.event(&event).await;
    assert_eq!(buried["status"], "dead", "{buried}");
    assert!(buried["attempts"].as_i64().unwrap() >= 5 && buried["error"].is_string(), "{buried}");

    let other = api.start("crashing", json!({})).await;
    assert_eq!(api.send_and_settle(&other, "add", json!({ "i": 0 })).await["status"], "completed");
    api.client.post(&format!("/v1/events/{event}/retry"), &json!({})).await.expect_status(202);
    assert_eq!(api.settled_event(&event).await["status"], "completed");
    assert_eq!(api.execution(&scene.execution).await["status"], "active");
}
