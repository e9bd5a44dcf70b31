//! One worker of a fleet as a process: `open_worker` reports every fault at the start, `run` works.

use std::sync::Arc;

use anyhow::Result;
use millstream_model::id::WorkerId;
use millstream_worker::{PerformCalls, WorkerOptions};
use tokio_util::sync::CancellationToken;

use crate::backend::{Database, open_fleet_database, open_fleet_streams, require_usable};
use crate::config::{Config, OptionalAddress};
use crate::redis_check::{self, RedisCheck};
use crate::roles::{RoleDependencies, worker_options};
use crate::telemetry::MetricsText;
use crate::{fault_injection, probe, signals};

/// A worker that has its connections and does not read yet.
#[derive(Debug)]
pub struct WorkerProcess {
    database: Database,
    shared: RoleDependencies,
    deps: millstream_worker::WorkerDeps,
    options: WorkerOptions,
    checked: RedisCheck,
    listen: OptionalAddress,
}

/// Fails when the settings, the database's tables or Redis do not allow a worker. PostgreSQL and Redis may be
/// down.
pub async fn open_worker(config: &Config, calls: Option<Arc<dyn PerformCalls>>) -> Result<WorkerProcess> {
    let database = open_fleet_database(config).await?;
    let streams = open_fleet_streams(config)?;
    require_usable(&database).await?;
    let shared = RoleDependencies::new(database.stores(), streams).await;
    let checked = redis_check::check_redis(&shared.streams).await?;
    fault_injection::jumping_clock(&shared.clock)?;
    let options = worker_options(config, shared.worker_id()?)?;
    let deps = shared.worker_deps(config, calls)?;
    Ok(WorkerProcess { database, shared, deps, options, checked, listen: config.worker.listen })
}

impl WorkerProcess {
    pub fn id(&self) -> &WorkerId {
        &self.options.worker
    }

    /// Works until `shutdown`, then drains.
    pub async fn run(self, metrics: MetricsText, shutdown: CancellationToken) -> Result<()> {
        let Self { database, shared, deps, options, checked, listen } = self;
        let worker = options.worker.clone();
        let probe = probe::start_probe(listen.0, &shared, metrics, shutdown.clone()).await?;
        let checking = match checked {
            RedisCheck::Usable => None,
            RedisCheck::NotYet => {
                Some(redis_check::check_redis_later(shared.streams.clone(), shutdown.clone()))
            }
        };
        tracing::info!(%worker, "worker is up");
        signals::notify_ready();
        millstream_worker::run_worker(deps, options, shutdown).await?;
        probe.stop_serving().await;
        database.close().await;
        if let Some(checking) = checking
            && let Some(unusable) = checking.await?
        {
            return Err(unusable.into());
        }
        tracing::info!(%worker, "worker is done");
        Ok(())
    }
}
