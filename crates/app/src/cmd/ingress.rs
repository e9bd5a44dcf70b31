//! `millstream ingress`: the door of a fleet as a process.

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;

use crate::backend::{open_fleet_database, open_fleet_streams};
use crate::cli::IngressArgs;
use crate::config::Config;
use crate::roles::{Openness, Shared, ingress_options};
use crate::{signals, telemetry};

pub(crate) async fn run(args: &IngressArgs, config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let database = open_fleet_database(config).await?;
    let streams = open_fleet_streams(config)?;
    let shared = Shared::new(database.stores(), streams).await;
    require_tables(&database.pending().await)?;

    let openness = if args.insecure_no_auth { Openness::Insecure } else { Openness::Careful };
    let options = ingress_options(config, config.listen, openness, &shared.stores).await?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let shutdown = signals::shutdown_token()?;
    tracing::info!(listen = %listener.local_addr()?, "ingress is up");
    signals::notify_ready();
    millstream_ingress::run(shared.ingress(metrics), options, listener, shutdown).await?;
    database.close().await;
    Ok(())
}

/// A role on a database without its tables would fail at every call: say it once, at the start. A
/// database that is away is another matter; the role waits for it.
pub(crate) fn require_tables(pending: &Result<Vec<String>>) -> Result<()> {
    match pending {
        Ok(missing) if !missing.is_empty() => {
            bail!("the database is behind ({}); run `millstream migrate` first", missing.join(", "))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "cannot check the database's tables yet");
            Ok(())
        }
    }
}
