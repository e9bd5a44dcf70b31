//! From settings to the dependencies and options of the roles.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use millstream_ingress::{AuthMode, IngressLimits, IngressOptions};
use millstream_model::entropy::Entropy;
use millstream_model::id::WorkerId;
use millstream_model::network_policy::NetworkPolicy;
use millstream_store::Stores;
use millstream_store::clock::StoreClock;
use millstream_stream::StreamHandles;
use millstream_worker::executors::FixedExecutor;
use millstream_worker::{HttpOptions, PerformCalls, RetentionPeriods, WorkerOptions};

use crate::config::Config;
use crate::entropy::SystemEntropy;
use crate::pem_files::private_roots;
use crate::quotas::{quota_settings, tenant_weights};
use crate::secrets::SecretSources;
use crate::telemetry::MetricsText;
use crate::{executors, fault_injection, outbound};

/// Dependencies that all roles of this process share.
#[derive(Debug, Clone)]
pub struct RoleDependencies {
    pub stores: Stores,
    pub streams: StreamHandles,
    pub clock: Arc<StoreClock>,
    pub entropy: Arc<SystemEntropy>,
}

impl RoleDependencies {
    /// Takes the store's time. While the store is down, this machine's clock is used; the worker's clock duty
    /// corrects it.
    pub async fn new(stores: Stores, streams: StreamHandles) -> Self {
        let asked = Instant::now();
        let clock = match stores.housekeeping.ping().await {
            Ok(time) => StoreClock::starting_at(time.plus(asked.elapsed() / 2)),
            Err(error) => {
                tracing::warn!(%error, "the store does not answer yet; using this machine's clock");
                StoreClock::starting_at(wall_clock())
            }
        };
        Self { stores, streams, clock: Arc::new(clock), entropy: Arc::new(SystemEntropy::from_system()) }
    }

    pub fn ingress_deps(&self, metrics: MetricsText) -> millstream_ingress::IngressDeps {
        millstream_ingress::IngressDeps {
            stores: self.stores.clone(),
            streams: self.streams.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            metrics,
        }
    }

    /// Fails on invalid settings of outbound events.
    pub fn worker_deps(
        &self,
        config: &Config,
        calls: Option<Arc<dyn PerformCalls>>,
    ) -> Result<millstream_worker::WorkerDeps> {
        let secrets = secret_sources(config);
        Ok(millstream_worker::WorkerDeps {
            sinks: outbound::build_sinks(config, &http_options(config)?, &secrets, &self.clock)?,
            stores: self.stores.clone(),
            streams: self.streams.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            http: None,
            calls,
            nodes: None,
            secrets: Some(Arc::new(secrets)),
        })
    }

    /// `hostname-pid-random`, new at every call.
    pub fn worker_id(&self) -> Result<WorkerId> {
        let host = nix::unistd::gethostname().context("cannot tell the host's name")?;
        let host: String = host
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' })
            .take(64)
            .collect();
        let random = self.entropy.next_u64() & 0xffff_ffff;
        WorkerId::parse(format!("{host}-{}-{random:08x}", std::process::id()))
            .map_err(|error| anyhow::anyhow!("worker id {error}"))
    }
}

/// Only for a start while the store is down.
fn wall_clock() -> millstream_model::time::Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    millstream_model::time::Timestamp::EPOCH.plus(since)
}

/// Whether an ingress may serve an address without keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeylessAccess {
    /// Only on loopback.
    Careful,
    /// `--insecure-no-auth`.
    Insecure,
}

/// Fails on a non-loopback address when no key exists, unless `--insecure-no-auth` is set.
pub async fn ingress_options(
    config: &Config,
    listen: SocketAddr,
    openness: KeylessAccess,
    stores: &Stores,
) -> Result<IngressOptions> {
    let auth = match (openness, listen.ip().is_loopback()) {
        (KeylessAccess::Insecure, _) => AuthMode::InsecureNoAuth,
        (KeylessAccess::Careful, true) => AuthMode::OpenOnLoopback,
        (KeylessAccess::Careful, false) => {
            let exist = stores.keys.keys_exist().await.context("cannot tell whether API keys exist")?;
            if !exist {
                bail!(
                    "refusing to serve {listen} without keys: make one with `millstream keys create NAME --role admin`, or start with --insecure-no-auth if every client that reaches it may do everything"
                );
            }
            AuthMode::Keys
        }
    };
    let limits = IngressLimits {
        in_flight: config.ingress.max_in_flight,
        queue_items: config.ingress.max_queued,
        connections: config.ingress.max_connections,
        connections_per_address: config.ingress.max_connections_per_address,
        streams_per_connection: config.ingress.max_streams_per_connection.max(1),
        idle_timeout: config.ingress.idle_timeout.0,
        ..IngressLimits::default()
    };
    Ok(IngressOptions {
        auth,
        limits,
        allowed_hosts: config.ingress.allowed_hosts.clone(),
        drain_deadline: config.ingress.drain.0,
        devices: config.devices.device_policy()?,
        executor_networks: executor_networks(config),
        weights: tenant_weights(&config.tenants)?,
        quotas: quota_settings(&config.quota, &config.tenants)?,
        crash: fault_injection::crash_point()?,
        ..IngressOptions::default()
    })
}

/// Where the secrets of actions come from.
fn secret_sources(config: &Config) -> SecretSources {
    let directory = &config.worker.secrets_dir;
    SecretSources::of_process((!directory.as_os_str().is_empty()).then(|| directory.clone()))
}

fn fixed_executors(config: &Config) -> Result<Vec<FixedExecutor>> {
    let parsed = config.worker.executors.iter().map(|text| executors::parse_executor(text));
    parsed.collect::<Result<_, String>>().map_err(|wrong| anyhow::anyhow!(wrong))
}

/// Networks in which self-registered executors may be.
fn executor_networks(config: &Config) -> NetworkPolicy {
    NetworkPolicy::allowing_networks(config.executor_allow.0.clone())
}

fn http_options(config: &Config) -> Result<HttpOptions> {
    Ok(HttpOptions {
        allow: config.http_allow.0.clone(),
        max_response: config.worker.http_max_response,
        private_roots: private_roots(config)?,
        ..HttpOptions::default()
    })
}

pub fn worker_options(config: &Config, worker: WorkerId) -> Result<WorkerOptions> {
    Ok(WorkerOptions {
        batch: config.worker.batch,
        action_slots: config.worker.action_slots,
        node_slots: config.worker.node_slots,
        lease: config.worker.lease.0,
        lock_ttl: config.worker.lock_ttl.0,
        reclaim_idle: config.worker.reclaim_idle.0,
        overdue: config.worker.overdue.0,
        drain: config.worker.drain.0,
        poison_cap: config.worker.poison_cap,
        signal_ttl: config.worker.signal_ttl.0,
        executors: fixed_executors(config)?,
        executor_networks: executor_networks(config),
        executor_silence: config.worker.executor_silence.0,
        http: http_options(config)?,
        devices: config.devices.device_policy()?,
        weights: tenant_weights(&config.tenants)?,
        quotas: quota_settings(&config.quota, &config.tenants)?,
        retention: RetentionPeriods {
            completed: config.retention.completed.0,
            failed: config.retention.failed.0,
            cancelled: config.retention.cancelled.0,
            keys: config.retention.keys.0,
        },
        crash: fault_injection::crash_point()?,
        crash_on: fault_injection::crash_on()?,
        ..WorkerOptions::for_worker(worker)
    })
}
