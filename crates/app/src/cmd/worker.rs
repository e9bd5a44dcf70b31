//! `millstream worker`: one worker of a fleet as a process.

use anyhow::Result;

use crate::backend::{open_fleet_database, open_fleet_streams};
use crate::cmd::ingress::require_tables;
use crate::config::Config;
use crate::roles::{Shared, worker_options};
use crate::surroundings::{self, Checked};
use crate::{drills, probe, signals, telemetry};

pub(crate) async fn run(config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let database = open_fleet_database(config).await?;
    let streams = open_fleet_streams(config)?;
    let shared = Shared::new(database.stores(), streams).await;
    require_tables(&database.pending().await)?;
    let checked = surroundings::check(&shared.streams).await?;
    drills::jumping_clock(&shared.clock)?;
    let worker = shared.worker_id()?;
    let options = worker_options(config, worker.clone())?;
    let shutdown = signals::shutdown_token()?;
    let probe =
        probe::start(config.worker.listen.0, shared.stores.clone(), metrics, shutdown.clone()).await?;
    let checking = match checked {
        Checked::Usable => None,
        Checked::NotYet => Some(surroundings::check_later(shared.streams.clone(), shutdown.clone())),
    };
    tracing::info!(%worker, "worker is up");
    signals::notify_ready();
    millstream_worker::run(shared.worker(), options, shutdown).await?;
    probe.abort();
    database.close().await;
    if let Some(checking) = checking
        && let Some(unusable) = checking.await?
    {
        return Err(unusable.into());
    }
    tracing::info!(%worker, "worker is done");
    Ok(())
}
