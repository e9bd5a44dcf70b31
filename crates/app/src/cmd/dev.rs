//! `millstream dev`: everything in this process, nothing to install.

use anyhow::{Result, bail};

use crate::cli::DevArgs;
use crate::config::Config;
use crate::engine::Engine;
use crate::{signals, telemetry};

pub(crate) async fn run(args: &DevArgs, config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let dir = args.dir.clone().unwrap_or_else(|| config.dev.dir.clone());
    let workers = args.workers.unwrap_or(config.dev.workers);
    let shutdown = signals::shutdown_token()?;
    let mut engine = Engine::start(config.clone(), &dir, workers, metrics).await?;
    eprintln!(
        "millstream dev is ready on http://{}\n  data  {}\n  stop  Ctrl-C\n",
        engine.address,
        engine.database_path.display()
    );
    signals::notify_ready();
    tokio::select! {
        () = shutdown.cancelled() => {}
        ended = engine.ended() => {
            ended?;
            bail!("a part of the engine ended by itself; its log says why");
        }
    }
    engine.stop().await
}
