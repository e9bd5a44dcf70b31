//! `millstream worker`: one worker of a fleet as a process.

use anyhow::Result;
use millstream_runtime::config::Config;
use millstream_runtime::{signals, telemetry, worker};

pub(crate) async fn run(config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let worker = worker::open(config, None).await?;
    worker.run(metrics, signals::shutdown_token()?).await
}
