//! One worker of a fleet as a process: `open` reports every fault at the start, `run` works.

use std::sync::Arc;

use anyhow::Result;
use millstream_core::id::WorkerId;
use millstream_worker::{PerformCalls, WorkerOptions};
use tokio_util::sync::CancellationToken;

use crate::backend::{Database, open_fleet_database, open_fleet_streams, require_usable};
use crate::config::{Config, OptionalAddress};
use crate::roles::{Shared, worker_options};
use crate::surroundings::{self, Checked};
use crate::telemetry::MetricsText;
use crate::{drills, probe, signals};

/// A worker that has its connections and does not read yet.
#[derive(Debug)]
pub struct Worker {
    database: Database,
    shared: Shared,
    deps: millstream_worker::Deps,
    options: WorkerOptions,
    checked: Checked,
    listen: OptionalAddress,
}

/// Fails when the settings, the database's tables or Redis do not allow a worker. PostgreSQL and Redis may be
/// down.
pub async fn open(config: &Config, calls: Option<Arc<dyn PerformCalls>>) -> Result<Worker> {
    let database = open_fleet_database(config).await?;
    let streams = open_fleet_streams(config)?;
    require_usable(&database).await?;
    let shared = Shared::new(database.stores(), streams).await;
    let checked = surroundings::check(&shared.streams).await?;
    drills::jumping_clock(&shared.clock)?;
    let options = worker_options(config, shared.worker_id()?)?;
    let deps = shared.worker(config, calls)?;
    Ok(Worker { database, shared, deps, options, checked, listen: config.worker.listen })
}

impl Worker {
    pub fn id(&self) -> &WorkerId {
        &self.options.worker
    }

    /// Works until `shutdown`, then drains.
    pub async fn run(self, metrics: MetricsText, shutdown: CancellationToken) -> Result<()> {
        let Self { database, shared, deps, options, checked, listen } = self;
        let worker = options.worker.clone();
        let probe = probe::start(listen.0, &shared, metrics, shutdown.clone()).await?;
        let checking = match checked {
            Checked::Usable => None,
            Checked::NotYet => Some(surroundings::check_later(shared.streams.clone(), shutdown.clone())),
        };
        tracing::info!(%worker, "worker is up");
        signals::notify_ready();
        millstream_worker::run(deps, options, shutdown).await?;
        probe.end().await;
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
