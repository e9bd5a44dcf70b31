//! Metrics of the process itself: they contain no tenant data, so every key with access to the status may
//! read them.

use std::fmt::Write;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Start time of the process; [`crate::metrics::describe_metrics`] initializes it.
static STARTED: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// Records the start time.
pub fn record_start() {
    LazyLock::force(&STARTED);
}

/// The `/metrics` page for a tenant's key.
pub fn render_for_tenant() -> String {
    let note = "# Series that count all tenants need a key with the role operator.\n";
    format!("{note}{}", render_process_metrics())
}

/// As Prometheus text: build, start, uptime and resident memory.
pub fn render_process_metrics() -> String {
    let (started, at) = *STARTED;
    let started_at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut text = String::new();
    let mut series = |name: &str, labels: &str, help: &str, value: f64| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {value}\n");
    };
    let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    series("millstream_build_info", version, "The version that runs.", 1.0);
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    series("process_start_time_seconds", "", "When the process started, since the epoch.", started_at as f64);
    series("millstream_uptime_seconds", "", "How long the process runs.", started.elapsed().as_secs_f64());
    if let Some(bytes) = resident_bytes() {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
        series("process_resident_memory_bytes", "", "Resident memory of the process.", bytes as f64);
    }
    text
}

/// `None` where the operating system has no `/proc/self/status`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
