//! Logs an outage once when it begins and once when it ends, independent of the number of failed calls.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct OutageLog {
    what: &'static str,
    open: AtomicBool,
}

impl OutageLog {
    pub(crate) fn of_service(what: &'static str) -> Self {
        Self { what, open: AtomicBool::new(false) }
    }

    pub(crate) fn record_failure(&self, error: &dyn Display) {
        if !self.open.swap(true, Ordering::Relaxed) {
            tracing::warn!(outage.of = self.what, error = %error, "{} is unavailable; continuing in degraded mode", self.what);
        }
    }

    pub(crate) fn record_success(&self) {
        if self.open.load(Ordering::Relaxed) && self.open.swap(false, Ordering::Relaxed) {
            tracing::info!(outage.of = self.what, "{} is available again", self.what);
        }
    }
}
