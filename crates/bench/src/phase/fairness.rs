//! Fairness benchmark: a backlog of one tenant, and single events of another during it.
//!
//! The backlog is written while the workers are stopped (by signal, not ended: they stay in the consumer
//! group, as in a running fleet), so that all of it waits when they continue.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::window::per_second;
use crate::completion::WorkCounters;
use crate::error::{BenchError, BenchResult};
use crate::fairness::{
    BUSY, BacklogKind, FairnessBench, FairnessCase, FairnessReport, LaneChoice, quiet_tenant,
};
use crate::generator::{self, on_own_thread};
use crate::latency::LatencyHistogram;
use crate::plan::LoadAmount;
use crate::request::{AwaitedStage, EventRequests, SubmitMode};
use crate::setup;
use crate::target::{EngineStart, EngineUnderTest, WorkerStart};
use crate::usage::other_cpu_seconds;
use crate::wire::{BenchConnection, ServerAddress};
use crate::workload::{ActionPerformers, Workload};
use crate::world::BenchWorld;

/// Events before the measured ones.
const WARMUP: usize = 20;
/// Polling interval for the end of the backlog.
const LOOK: Duration = Duration::from_millis(50);
/// Without progress for this long, something is lost.
const STUCK: Duration = Duration::from_secs(60);
/// Executions of the quiet tenant, used in rotation (round robin).
const QUIET_EXECUTIONS: usize = 2_000;
/// Clients of the quiet tenant during the backlog, each with one event at a time. A single client completes
/// about a hundred events meanwhile, and the 99th percentile of these would be the slowest one.
const QUIET_SENDERS: usize = 4;
/// Events per request of the backlog; connections that send it.
const BATCH: usize = 500;
const CONNECTIONS: usize = 4;

pub(crate) async fn measure_fairness(
    world: &BenchWorld,
    wanted: &FairnessBench,
) -> BenchResult<FairnessReport> {
    let mut cases = Vec::new();
    for kind in BacklogKind::ALL {
        let alone = one_run(world, wanted, kind, None).await?;
        for lane in LaneChoice::ALL {
            let run = one_run(world, wanted, kind, Some(lane)).await?;
            cases.push(FairnessCase {
                kind,
                lane,
                idle: run.idle.percentiles(),
                beside: run.beside.percentiles(),
                alone_per_second: alone.per_second,
                together_per_second: run.per_second,
                cores_taken_by_others: run.cores_taken_by_others,
            });
        }
    }
    Ok(FairnessReport { backlog: wanted.backlog, cases })
}

struct FairnessRun {
    idle: LatencyHistogram,
    beside: LatencyHistogram,
    per_second: f64,
    cores_taken_by_others: Option<f64>,
}

/// One run on a separate engine; without a lane the busy tenant is alone.
async fn one_run(
    world: &BenchWorld,
    wanted: &FairnessBench,
    kind: BacklogKind,
    lane: Option<LaneChoice>,
) -> BenchResult<FairnessRun> {
    let start = world.new_run(ActionPerformers::Engine);
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = measure_case(world, wanted, &mut subject, &start, kind, lane).await;
    world.finish_run(subject, outcome).await
}

async fn measure_case(
    world: &BenchWorld,
    wanted: &FairnessBench,
    subject: &mut EngineUnderTest,
    start: &EngineStart,
    kind: BacklogKind,
    lane: Option<LaneChoice>,
) -> BenchResult<FairnessRun> {
    let workload = match kind {
        BacklogKind::Events => Workload::Many,
        BacklogKind::Actions => Workload::Http,
    };
    let what = format!("{}, {}", kind.name(), lane.map_or("alone", LaneChoice::name));
    let quiet = quiet_tenant(lane.unwrap_or(LaneChoice::Same))?;
    let busy_at = subject.as_tenant(start, BUSY).await?;
    let quiet_at = subject.as_tenant(start, &quiet).await?;
    let definition = workload.definition(&world.sink.url());
    for address in [&busy_at, &quiet_at] {
        let mut door = BenchConnection::to_server(address);
        door.post("/v1/definitions", "application/yaml", definition.as_bytes(), &[200, 201]).await?;
    }
    setup::start_executions(&quiet_at, workload, "q-", QUIET_EXECUTIONS).await?;
    setup::start_executions(&busy_at, workload, "b-", wanted.backlog).await?;
    let single = EventRequests::new(&quiet_at, workload, "q-", QUIET_EXECUTIONS, SubmitMode::Single)
        .until(AwaitedStage::Completed);
    send_singly(&quiet_at, &single, WARMUP).await?;
    let idle = send_singly(&quiet_at, &single, wanted.idle).await?;

    subject.stop_workers()?;
    let filled = send_backlog(world, &busy_at, workload, wanted.backlog, &what).await;
    let baseline = WorkCounters::default();
    let (before, _) = world.read_meter(&subject.roles()).await?;
    subject.continue_workers()?;
    filled?;
    let began = Instant::now();
    let counted = WorkCounters::read_counters(subject).await?.unwrap_or(baseline);

    let over = Arc::new(AtomicBool::new(false));
    let beside = lane.map(|_| {
        let (address, requests, over) = (quiet_at.clone(), single.clone(), over.clone());
        on_own_thread(move || send_until(address, requests, over))
    });
    let drained = wait_for_backlog(world, subject, (counted, wanted.backlog), kind, &what);
    let (drained, beside) = match beside {
        None => (drained.await, Ok(LatencyHistogram::new()?)),
        Some(sending) => tokio::join!(
            async {
                let drained = drained.await;
                over.store(true, Ordering::Relaxed);
                drained
            },
            sending
        ),
    };
    let (done, seconds) = (drained?, began.elapsed().as_secs_f64());
    let (after, _) = world.read_meter(&subject.roles()).await?;
    Ok(FairnessRun {
        idle,
        beside: beside?,
        per_second: per_second(done, seconds),
        cores_taken_by_others: other_cpu_seconds(&after, &before).map(|busy| busy / seconds),
    })
}

async fn send_backlog(
    world: &BenchWorld,
    address: &ServerAddress,
    workload: Workload,
    events: usize,
    what: &str,
) -> BenchResult<()> {
    let _bar = world.plan.progress.start_bar(&format!("{what}: the backlog is sent"), events);
    let requests = EventRequests::new(address, workload, "b-", events, SubmitMode::Ndjson { batch: BATCH });
    let (address, progress) = (address.clone(), Arc::new(AtomicUsize::new(0)));
    let amount = LoadAmount::Events(events);
    let sent =
        on_own_thread(move || generator::run_closed_loop(address, requests, CONNECTIONS, amount, progress))
            .await?;
    if sent.accepted == events {
        return Ok(());
    }
    Err(BenchError::Wrong(format!("{} of {events} events of the backlog were accepted", sent.accepted)))
}

/// Sends single events, each after the previous one is completed.
async fn send_singly(
    address: &ServerAddress,
    requests: &EventRequests,
    count: usize,
) -> BenchResult<LatencyHistogram> {
    let (mut sender, mut latencies) = (SingleSender::to(address, requests), LatencyHistogram::new()?);
    for number in 0..count {
        latencies.record(sender.send_event(number).await?);
    }
    Ok(latencies)
}

async fn send_until(
    address: ServerAddress,
    requests: EventRequests,
    over: Arc<AtomicBool>,
) -> BenchResult<LatencyHistogram> {
    let latencies = RefCell::new(LatencyHistogram::new()?);
    let senders = (0..QUIET_SENDERS).map(|first| {
        let (mut sender, latencies, over) = (SingleSender::to(&address, &requests), &latencies, &over);
        async move {
            let mut number = first;
            while !over.load(Ordering::Relaxed) {
                let took = sender.send_event(number).await?;
                latencies.borrow_mut().record(took);
                number += QUIET_SENDERS;
            }
            Ok(())
        }
    });
    futures::future::try_join_all(senders).await?;
    Ok(latencies.into_inner())
}

struct SingleSender<'a> {
    connection: BenchConnection,
    requests: &'a EventRequests,
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> SingleSender<'a> {
    fn to(address: &ServerAddress, requests: &'a EventRequests) -> Self {
        Self {
            connection: BenchConnection::to_server(address),
            requests,
            bytes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Latency of one event. An event that exceeds its maximum wait counts with that wait.
    async fn send_event(&mut self, number: usize) -> BenchResult<Duration> {
        self.requests.write_request(&mut self.bytes, &mut self.scratch, number, 1);
        let began = Instant::now();
        let reply = self.connection.exchange_request(&self.bytes).await;
        let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
        match reply.status {
            200 | 202 => Ok(began.elapsed()),
            status => {
                let body = String::from_utf8_lossy(&reply.body);
                Err(BenchError::Wrong(format!(
                    "an event was answered {status}: {}",
                    crate::wire::short_excerpt(&body)
                )))
            }
        }
    }
}

/// Waits until the backlog's amount of work is done; returns the total amount done.
async fn wait_for_backlog(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    (before, backlog): (WorkCounters, usize),
    kind: BacklogKind,
    what: &str,
) -> BenchResult<usize> {
    let bar = world.plan.progress.start_bar(what, backlog);
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        subject.check_alive()?;
        let seen = WorkCounters::read_counters(subject).await?.unwrap_or_default().since(before);
        let done = match kind {
            BacklogKind::Events => seen.decided,
            BacklogKind::Actions => seen.attempted,
        };
        bar.set_position(done);
        let done = usize::try_from(done).unwrap_or(usize::MAX);
        if done >= backlog {
            return Ok(done);
        }
        if done > last {
            (last, moved) = (done, Instant::now());
        } else if moved.elapsed() > STUCK {
            return Err(BenchError::Wrong(format!("{what}: nothing moves, {done} of {backlog} are done")));
        }
        tokio::time::sleep(LOOK).await;
    }
}
