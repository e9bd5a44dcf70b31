//! CPU seconds and peak memory by role, between two moments.

use serde::Serialize;

use crate::process;
use crate::redis_server::RedisFacts;
use crate::target::Role;

/// One role during one run.
#[derive(Debug, Clone, Serialize)]
pub struct RoleUsage {
    pub role: String,
    pub cpu_seconds: f64,
    pub cpu_micros_per_event: f64,
    /// The most it ever had, in bytes; 0 where it is not known.
    pub peak_rss: u64,
}

/// Everything that uses CPU during a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    readings: Vec<Reading>,
}

#[derive(Debug, Clone)]
struct Reading {
    role: String,
    cpu_seconds: f64,
    peak_rss: u64,
}

impl Meter {
    /// Reads all clocks now.
    pub(crate) fn read(roles: &[Role], postmaster: Option<u32>, redis: Option<&RedisFacts>) -> Self {
        let mut readings = Vec::new();
        for role in roles {
            if let Some(cpu_seconds) = process::cpu_seconds(role.pid) {
                let peak_rss = process::peak_rss(role.pid).unwrap_or(0);
                readings.push(Reading { role: role.name.clone(), cpu_seconds, peak_rss });
            }
        }
        if let Some(cpu_seconds) = postmaster.and_then(process::family_cpu_seconds) {
            readings.push(Reading { role: "postgres".to_owned(), cpu_seconds, peak_rss: 0 });
        }
        if let Some(redis) = redis {
            let peak_rss = redis.pid.and_then(process::peak_rss).unwrap_or(0);
            readings.push(Reading { role: "redis".to_owned(), cpu_seconds: redis.cpu_seconds, peak_rss });
        }
        let own = std::process::id();
        if let Some(cpu_seconds) = process::cpu_seconds(own) {
            let peak_rss = process::peak_rss(own).unwrap_or(0);
            readings.push(Reading { role: "generator".to_owned(), cpu_seconds, peak_rss });
        }
        Self { readings }
    }

    /// What was used since an earlier reading; a role that was not there started at zero.
    pub(crate) fn since(&self, earlier: &Self, events: usize) -> Vec<RoleUsage> {
        self.readings
            .iter()
            .map(|now| {
                let before = earlier.readings.iter().find(|before| before.role == now.role);
                let cpu_seconds = now.cpu_seconds - before.map_or(0.0, |before| before.cpu_seconds);
                RoleUsage {
                    role: now.role.clone(),
                    cpu_seconds,
                    cpu_micros_per_event: cpu_seconds * 1e6 / as_f64(events.max(1)),
                    peak_rss: now.peak_rss,
                }
            })
            .collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}
