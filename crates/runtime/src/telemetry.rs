//! Logs and metrics of a process.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};

/// Histogram buckets of latencies: half a millisecond to ten seconds.
const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Histogram buckets of batch sizes.
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0];

/// Renders the metrics as Prometheus text.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// Logs to stderr: stdout is for results.
pub fn start_logging(config: &Config) -> Result<()> {
    let filter: Targets = config.log.parse().with_context(|| {
        format!(
            "the setting `log` is not a filter like `debug` or `info,millstream_worker=debug`: {:?}",
            config.log
        )
    })?;
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(terminal);
    let as_json = match config.log_format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !terminal,
    };
    let subscriber = tracing_subscriber::registry().with(filter);
    // A second start within one process (the demo) keeps the first subscriber.
    if as_json {
        let _ = subscriber.with(lines.json().flatten_event(true)).try_init();
    } else {
        let _ = subscriber.with(lines.with_target(false)).try_init();
    }
    Ok(())
}

/// Installs the recorder. Once per process.
pub fn start_metrics() -> Result<MetricsText> {
    let handle = recorder_builder()?.install_recorder().context("cannot install the metrics recorder")?;
    Ok(Arc::new(move || handle.render()))
}

/// Metrics of an engine embedded in another program: a recorder that is already installed stays in place, and
/// metrics are read from it.
pub fn embedded_metrics() -> MetricsText {
    start_metrics().unwrap_or_else(|_| Arc::new(|| "# this process has a recorder of its own\n".to_owned()))
}

fn recorder_builder() -> Result<PrometheusBuilder> {
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".into()), SIZES)?)
}
