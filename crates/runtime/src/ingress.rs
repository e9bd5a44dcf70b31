//! The ingress of a fleet as a process: `open_ingress` reports every fault before clients connect, `run` serves.

use std::net::SocketAddr;

use anyhow::Result;
use millstream_ingress::{IngressListeners, IngressOptions};
use tokio_util::sync::CancellationToken;

use crate::backend::{Database, open_fleet_database, open_fleet_streams, require_usable};
use crate::config::Config;
use crate::listeners::{bind_listeners, most_exposed_address};
use crate::roles::{KeylessAccess, RoleDependencies, ingress_options};
use crate::signals;
use crate::telemetry::MetricsText;

/// An ingress that listens and does not serve yet.
#[derive(Debug)]
pub struct IngressProcess {
    database: Database,
    shared: RoleDependencies,
    options: IngressOptions,
    listeners: IngressListeners,
}

/// Fails when the settings or the database's tables do not allow an ingress. PostgreSQL and Redis may be
/// down.
pub async fn open_ingress(config: &Config, openness: KeylessAccess) -> Result<IngressProcess> {
    let database = open_fleet_database(config).await?;
    let streams = open_fleet_streams(config)?;
    require_usable(&database).await?;
    let shared = RoleDependencies::new(database.stores(), streams).await;
    let options = ingress_options(config, most_exposed_address(config)?, openness, &shared.stores).await?;
    let listeners = bind_listeners(config).await?;
    Ok(IngressProcess { database, shared, options, listeners })
}

impl IngressProcess {
    /// Addresses of the listeners: without TLS first.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        Ok(self.listeners.addresses()?)
    }

    /// Serves until `shutdown`, then drains.
    pub async fn run(self, metrics: MetricsText, shutdown: CancellationToken) -> Result<()> {
        tracing::info!(listen = ?self.addresses()?, "ingress is up");
        signals::notify_ready();
        millstream_ingress::run_ingress(
            self.shared.ingress_deps(metrics),
            self.options,
            self.listeners,
            shutdown,
        )
        .await?;
        self.database.close().await;
        Ok(())
    }
}
