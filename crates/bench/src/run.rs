//! The course of a bench: engines started, loads sent, counts checked, everything removed again.

use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{BenchError, Result};
use crate::generator::{self, Sent, on_own_thread};
use crate::plan::{Amount, Plan, Target};
use crate::postgres::{self, PostgresFacts, PrivateDatabase};
use crate::quiet::{self, Counters, Quiet};
use crate::redis_server::{RedisFacts, RedisServer};
use crate::report::{CoursePoint, Machine, Report, RunReport, WorkloadReport};
use crate::request::Requests;
use crate::setup;
use crate::target::{Data, Guard, Start, Subject, Workers};
use crate::usage::{Meter, as_f64};
use crate::verify;
use crate::workload::Workload;

/// Measures everything that the plan names, unless `interrupted` resolves first.
pub async fn run(plan: &Plan, interrupted: impl Future<Output = ()>) -> Result<Report> {
    plan.check()?;
    let mut world = World::open(plan).await?;
    let outcome = tokio::select! {
        outcome = measure(plan, &world) => outcome,
        () = interrupted => Err(BenchError::Wrong("interrupted".to_owned())),
    };
    world.clean_up().await;
    outcome
}

/// What all runs share: services, and what has to be removed at the end.
struct World {
    guard: Arc<Guard>,
    redis: Option<RedisServer>,
    redis_facts: Option<RedisFacts>,
    postgres: Option<PostgresFacts>,
    databases: Mutex<Vec<PrivateDatabase>>,
    prefixes: Mutex<Vec<String>>,
}

impl World {
    async fn open(plan: &Plan) -> Result<Self> {
        let mut world = Self {
            guard: Arc::new(Guard::start()?),
            redis: None,
            redis_facts: None,
            postgres: None,
            databases: Mutex::default(),
            prefixes: Mutex::default(),
        };
        if let Target::Fleet { database_url, redis_url, .. } = &plan.target {
            world.postgres = Some(postgres::facts(database_url).await?);
            let mut redis = RedisServer::connect(redis_url).await?;
            world.redis_facts = Some(redis.facts().await?);
            world.redis = Some(redis);
        }
        Ok(world)
    }

    async fn private_database(&self, plan: &Plan, run: &str) -> Result<Option<PrivateDatabase>> {
        let Target::Fleet { database_url, .. } = &plan.target else { return Ok(None) };
        let database = PrivateDatabase::create(database_url, run).await?;
        self.databases.lock().unwrap_or_else(PoisonError::into_inner).push(database.clone());
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).push(format!("bench-{run}"));
        Ok(Some(database))
    }

    /// Removes what runs made. What cannot be removed now is left with its telling name.
    async fn clean_up(&mut self) {
        let databases = std::mem::take(&mut *self.databases.lock().unwrap_or_else(PoisonError::into_inner));
        for database in databases {
            let _ = database.drop_it().await;
        }
        let prefixes = std::mem::take(&mut *self.prefixes.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(redis) = &mut self.redis {
            for prefix in prefixes {
                let _ = redis.remove(&prefix).await;
            }
        }
    }
}

async fn measure(plan: &Plan, world: &World) -> Result<Report> {
    let mut workloads = Vec::new();
    for workload in &plan.workloads {
        let mut runs = Vec::new();
        for _ in 0..plan.runs {
            runs.push(once(plan, world, *workload).await?);
        }
        workloads.extend(WorkloadReport::of(*workload, runs));
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::look(),
        target: plan.target.describe(),
        submit: plan.submit,
        connections: plan.connections,
        postgres: world.postgres.clone(),
        redis: world.redis_facts.clone(),
        workloads,
    })
}

/// One run: an engine of its own, from its start to its end.
async fn once(plan: &Plan, world: &World, workload: Workload) -> Result<RunReport> {
    let run = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
    let database = world.private_database(plan, &run).await?;
    let start = Start {
        guard: world.guard.clone(),
        binary: plan.binary.clone(),
        settings: plan.settings.clone(),
        run: run.clone(),
    };
    let mut subject = Subject::start(&plan.target, database.as_ref(), &start, Workers::AtOnce).await?;
    let outcome = throughput(plan, world, workload, &mut subject, &run).await;
    let outcome = outcome.map_err(|error| with_logs(error, &subject));
    subject.stop().await;
    outcome
}

async fn throughput(
    plan: &Plan,
    world: &World,
    workload: Workload,
    subject: &mut Subject,
    run: &str,
) -> Result<RunReport> {
    let events = plan.events(workload);
    let executions = workload.executions(events);
    setup::apply(subject, workload, "").await?;
    if plan.warmup > 0 {
        let prefix = format!("w-{run}-");
        setup::start_executions(&subject.address, workload, &prefix, workload.executions(plan.warmup))
            .await?;
        let (sent, _) = load(
            plan,
            workload,
            subject,
            &prefix,
            workload.executions(plan.warmup),
            Amount::Events(plan.warmup),
        )
        .await?;
        verify::applied(subject, workload, &prefix, workload.executions(plan.warmup), sent.accepted).await?;
    }
    let prefix = format!("m-{run}-");
    setup::start_executions(&subject.address, workload, &prefix, executions).await?;

    let (meter, redis_before) = world.meter(subject).await?;
    let size_before = size(&subject.database).await?;
    let amount = plan.amount.unwrap_or(Amount::Events(events));
    let (sent, quiet) = load(plan, workload, subject, &prefix, executions, amount).await?;
    let (after, redis_after) = world.meter(subject).await?;
    let size_after = size(&subject.database).await?;

    verify::applied(subject, workload, &prefix, executions, sent.accepted).await?;
    let ended = quiet.at.ok_or_else(|| {
        BenchError::Wrong("nothing moves any more, and the store says that not everything is done".to_owned())
    })?;
    let submit_seconds = (sent.ended - sent.began).as_secs_f64();
    let end_to_end_seconds = (ended - sent.began).as_secs_f64();
    Ok(RunReport {
        events: sent.accepted,
        executions,
        submit_seconds,
        submit_per_second: as_f64(sent.accepted) / submit_seconds,
        submit_latency: sent.latencies.percentiles(),
        pushed_back: sent.pushed_back,
        end_to_end_seconds,
        end_to_end_per_second: as_f64(sent.accepted) / end_to_end_seconds,
        roles: after.since(&meter, sent.accepted),
        database_bytes_per_event: match (size_before, size_after) {
            (Some(before), Some(after)) => Some((after as f64 - before as f64) / as_f64(sent.accepted)),
            (_, _) => None,
        },
        redis_used_memory_before: redis_before.map(|facts| facts.used_memory),
        redis_used_memory_after: redis_after.map(|facts| facts.used_memory),
        batches: std::collections::BTreeMap::new(),
        course: course(&sent, &quiet),
    })
}

impl World {
    async fn meter(&self, subject: &Subject) -> Result<(Meter, Option<RedisFacts>)> {
        let redis = match &self.redis {
            Some(redis) => Some(redis.clone().facts().await?),
            None => None,
        };
        let postmaster = self.postgres.as_ref().and_then(|facts| facts.postmaster);
        Ok((Meter::read(&subject.roles(), postmaster, redis.as_ref()), redis))
    }
}

/// Sends a load and waits until everything is done.
async fn load(
    plan: &Plan,
    workload: Workload,
    subject: &mut Subject,
    prefix: &str,
    executions: usize,
    amount: Amount,
) -> Result<(Sent, Quiet)> {
    let baseline = subject.counters().await?.map(|seen| Counters::of(&seen)).unwrap_or_default();
    let (address, connections) = (subject.address.clone(), plan.connections);
    let requests = Requests::new(&address, workload, prefix, executions, plan.submit);
    let (progress, total) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::new()));
    let known = total.clone();
    let sending = async move {
        let sent = on_own_thread(move || generator::closed(address, requests, connections, amount, progress))
            .await?;
        let _ = known.set(sent.accepted);
        Ok(sent)
    };
    let wanted = || {
        total.get().map(|events| Counters {
            decided: *events as u64,
            attempted: (*events * workload.actions()) as u64,
        })
    };
    tokio::try_join!(sending, quiet::watch(subject, baseline, wanted))
}

async fn size(database: &Data) -> Result<Option<u64>> {
    match database {
        Data::Postgres { url, .. } => postgres::size(url).await.map(Some),
        Data::Sqlite { file } => Ok(std::fs::metadata(file).ok().map(|meta| meta.len())),
        Data::Unknown => Ok(None),
    }
}

fn course(sent: &Sent, quiet: &Quiet) -> Vec<CoursePoint> {
    let accepted = sent.course.iter().map(|(seconds, accepted)| CoursePoint {
        seconds: *seconds,
        accepted: Some(*accepted),
        decided: None,
    });
    let decided = quiet.course.iter().map(|(at, counters)| CoursePoint {
        seconds: at.saturating_duration_since(sent.began).as_secs_f64(),
        accepted: None,
        decided: Some(counters.decided),
    });
    accepted.chain(decided).collect()
}

/// A failure of the engine comes with what its processes said last.
fn with_logs(error: BenchError, subject: &Subject) -> BenchError {
    match error {
        BenchError::Wrong(text) => BenchError::Wrong(format!("{text}\n{}", subject.logs())),
        BenchError::Unreachable { what, reason } => {
            BenchError::Unreachable { what, reason: format!("{reason}\n{}", subject.logs()) }
        }
        other @ (BenchError::Usage(_) | BenchError::Machine { .. }) => other,
    }
}
