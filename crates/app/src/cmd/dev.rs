//! `millstream dev`: everything in this process, nothing to install.

use std::sync::Arc;

use anyhow::Result;
use millstream_runtime::config::Config;
use millstream_runtime::engine::EmbeddedEngine;
use millstream_runtime::roles::KeylessAccess;
use millstream_runtime::{signals, telemetry};
use millstream_worker::PerformCalls;

use crate::cli::DevArgs;

pub(crate) async fn run(args: &DevArgs, config: &Config, calls: Option<Arc<dyn PerformCalls>>) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let mut config = config.clone();
    if let Some(dir) = &args.dir {
        config.dev.dir.clone_from(dir);
    }
    if let Some(workers) = args.workers {
        config.dev.workers = workers;
    }
    let openness = if args.insecure_no_auth { KeylessAccess::Insecure } else { KeylessAccess::Careful };
    let shutdown = signals::shutdown_token()?;
    let engine = EmbeddedEngine::start_with_openness(config, openness, calls, metrics).await?;
    eprintln!(
        "millstream dev is ready on {}\n  data  {}\n  stop  Ctrl-C\n",
        engine.url,
        engine.database_path.display()
    );
    engine.run(shutdown).await
}
