//! Signals: the first asks for a drain, the second ends the process at once.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a second signal.
pub const IMPATIENT: i32 = 130;

/// A token that is cancelled by SIGTERM, SIGINT or SIGHUP.
pub fn shutdown_token() -> Result<CancellationToken> {
    let token = CancellationToken::new();
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let mut signals: Vec<Signal> =
        kinds.into_iter().map(signal).collect::<std::io::Result<_>>().context("cannot listen for signals")?;
    let cancelled = token.clone();
    tokio::spawn(async move {
        next_signal(&mut signals).await;
        tracing::info!("draining; signal again to stop at once");
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        cancelled.cancel();
        next_signal(&mut signals).await;
        std::process::exit(IMPATIENT);
    });
    Ok(token)
}

async fn next_signal(signals: &mut [Signal]) {
    let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    futures::future::select_all(waits).await;
}

/// Notifies a process manager (`Type=notify`) that this process is ready.
pub fn notify_ready() {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}
