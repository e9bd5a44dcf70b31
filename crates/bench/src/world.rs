//! Shared state of all runs of a bench: the plan, the services, and everything to remove at the end.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{BenchError, BenchResult};
use crate::plan::{BenchPlan, BenchTarget};
use crate::postgres::{self, PostgresFacts, PrivateDatabase};
use crate::redis_server::{RedisFacts, RedisServer};
use crate::sink::BenchSink;
use crate::sqlite::{self, SqliteFacts};
use crate::target::{CleanupGuard, EngineRole, EngineStart, EngineUnderTest, WorkerStart};
use crate::usage::CpuMeter;
use crate::workload::ActionPerformers;

#[derive(Debug)]
pub(crate) struct BenchWorld {
    pub(crate) plan: BenchPlan,
    pub(crate) sink: BenchSink,
    pub(crate) guard: Arc<CleanupGuard>,
    pub(crate) postgres: Option<PostgresFacts>,
    pub(crate) sqlite: Option<SqliteFacts>,
    pub(crate) redis_facts: Option<RedisFacts>,
    redis: Option<RedisServer>,
    databases: Mutex<Vec<PrivateDatabase>>,
    prefixes: Mutex<Vec<String>>,
}

impl BenchWorld {
    pub(crate) async fn open_services(plan: &BenchPlan) -> BenchResult<Self> {
        let mut world = Self {
            plan: plan.clone(),
            sink: BenchSink::open(plan.action_wait).await?,
            guard: Arc::new(CleanupGuard::start()?),
            postgres: None,
            sqlite: None,
            redis_facts: None,
            redis: None,
            databases: Mutex::default(),
            prefixes: Mutex::default(),
        };
        match &plan.target {
            BenchTarget::Url { .. } => {}
            BenchTarget::Embedded { .. } => world.sqlite = Some(sqlite::sqlite_facts().await?),
            BenchTarget::Fleet { database_url, redis_url, .. } => {
                world.postgres = Some(postgres::server_facts(database_url).await?);
                let mut redis = RedisServer::connect(redis_url).await?;
                world.redis_facts = Some(redis.server_facts().await?);
                world.redis = Some(redis);
            }
        }
        Ok(world)
    }

    /// A new id for one run.
    pub(crate) fn new_run(&self, hands: ActionPerformers) -> EngineStart {
        EngineStart {
            guard: self.guard.clone(),
            binary: self.plan.binary.clone(),
            settings: self.plan.settings.clone(),
            run: uuid::Uuid::new_v4().simple().to_string()[..12].to_owned(),
            hands,
        }
    }

    /// Starts an engine for one run.
    pub(crate) async fn start_engine(
        &self,
        start: &EngineStart,
        workers: WorkerStart,
    ) -> BenchResult<EngineUnderTest> {
        let database = match &self.plan.target {
            BenchTarget::Fleet { .. } => Some(self.private_database(&start.run).await?),
            BenchTarget::Url { .. } | BenchTarget::Embedded { .. } => None,
        };
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).push(start.redis_prefix());
        EngineUnderTest::start(&self.plan.target, database.as_ref(), start, workers).await
    }

    /// Stops the engine of a run and removes its data; the error of a run includes the ends of its logs.
    pub(crate) async fn finish_run<T>(
        &self,
        subject: EngineUnderTest,
        outcome: BenchResult<T>,
    ) -> BenchResult<T> {
        let outcome = outcome.map_err(|error| with_logs(error, &subject));
        drop(subject);
        self.clean_up().await;
        outcome
    }

    pub(crate) async fn private_database(&self, run: &str) -> BenchResult<PrivateDatabase> {
        let BenchTarget::Fleet { database_url, .. } = &self.plan.target else {
            return Err(BenchError::Wrong("only a fleet has a database of its own".to_owned()));
        };
        let database = PrivateDatabase::create_database(database_url, run).await?;
        self.databases.lock().unwrap_or_else(PoisonError::into_inner).push(database.clone());
        Ok(database)
    }

    /// Removes everything that runs created. An object that cannot be removed now keeps its recognisable
    /// name.
    pub(crate) async fn clean_up(&self) {
        let databases = std::mem::take(&mut *self.databases.lock().unwrap_or_else(PoisonError::into_inner));
        for database in databases {
            let _ = database.drop_it().await;
        }
        let prefixes = std::mem::take(&mut *self.prefixes.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(redis) = &self.redis {
            let mut redis = redis.clone();
            for prefix in prefixes {
                let _ = redis.remove_keys(&prefix).await;
            }
        }
    }

    /// All CPU clocks, and Redis' memory.
    pub(crate) async fn read_meter(
        &self,
        roles: &[EngineRole],
    ) -> BenchResult<(CpuMeter, Option<RedisFacts>)> {
        let redis = match &self.redis {
            Some(redis) => Some(redis.clone().server_facts().await?),
            None => None,
        };
        let postmaster = self.postgres.as_ref().and_then(|facts| facts.postmaster);
        Ok((CpuMeter::read_clocks(roles, postmaster, redis.as_ref()), redis))
    }
}

fn with_logs(error: BenchError, subject: &EngineUnderTest) -> BenchError {
    let with = |text: String| match subject.log_tails() {
        logs if logs.is_empty() => text,
        logs => format!("{text}\n{logs}"),
    };
    match error {
        BenchError::Wrong(text) => BenchError::Wrong(with(text)),
        BenchError::Unreachable { what, reason } => BenchError::Unreachable { what, reason: with(reason) },
        other @ (BenchError::Usage(_) | BenchError::Machine { .. } | BenchError::Interrupted) => other,
    }
}
