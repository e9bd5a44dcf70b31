//! `millstream worker`: one worker of a fleet as a process.

use std::sync::Arc;

use anyhow::Result;
use millstream_runtime::config::Config;
use millstream_runtime::{signals, telemetry, worker};
use millstream_worker::PerformCalls;

pub(crate) async fn run(config: &Config, calls: Option<Arc<dyn PerformCalls>>) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let worker = worker::open_worker(config, calls).await?;
    worker.run(metrics, signals::shutdown_token()?).await
}
