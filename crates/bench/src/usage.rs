//! CPU seconds and peak memory by role, between two moments.

use serde::Serialize;

use crate::process;
use crate::redis_server::RedisFacts;
use crate::target::{EngineRole, RoleLocation};

/// This process: it sends the events and is not part of their cost.
pub(crate) const GENERATOR: &str = "generator";

/// One role during one run.
#[derive(Debug, Clone, Serialize)]
pub struct RoleUsage {
    pub role: String,
    pub cpu_seconds: f64,
    pub cpu_micros_per_event: f64,
    /// Peak memory in bytes (of PostgreSQL: at the end); 0 where unknown.
    pub peak_rss: u64,
}

/// CPU clocks of all roles during a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuMeter {
    readings: Vec<CpuReading>,
    machine: Option<f64>,
}

#[derive(Debug, Clone)]
struct CpuReading {
    role: String,
    cpu_seconds: f64,
    peak_rss: u64,
}

impl CpuMeter {
    /// Reads all clocks now.
    pub(crate) fn read_clocks(
        roles: &[EngineRole],
        postmaster: Option<u32>,
        redis: Option<&RedisFacts>,
    ) -> Self {
        let mut readings = Vec::new();
        let mut threads = 0.0;
        for role in roles {
            let (cpu_seconds, peak_rss) = match &role.place {
                RoleLocation::Process(pid) => (process::cpu_seconds(*pid), process::peak_rss(*pid)),
                // Memory of a thread belongs to this process.
                RoleLocation::Thread(stat) => (process::thread_cpu_seconds(stat), None),
            };
            let Some(cpu_seconds) = cpu_seconds else { continue };
            if let RoleLocation::Thread(_) = role.place {
                threads += cpu_seconds;
            }
            readings.push(CpuReading {
                role: role.name.clone(),
                cpu_seconds,
                peak_rss: peak_rss.unwrap_or(0),
            });
        }
        if let Some(cpu_seconds) = postmaster.and_then(process::family_cpu_seconds) {
            let peak_rss = postmaster.and_then(process::family_rss).unwrap_or(0);
            readings.push(CpuReading { role: "postgres".to_owned(), cpu_seconds, peak_rss });
        }
        if let Some(redis) = redis {
            let peak_rss = redis.pid.and_then(process::peak_rss).unwrap_or(0);
            readings.push(CpuReading { role: "redis".to_owned(), cpu_seconds: redis.cpu_seconds, peak_rss });
        }
        let own = std::process::id();
        if let Some(cpu_seconds) = process::cpu_seconds(own) {
            let peak_rss = process::peak_rss(own).unwrap_or(0);
            let cpu_seconds = cpu_seconds - threads;
            readings.push(CpuReading { role: GENERATOR.to_owned(), cpu_seconds, peak_rss });
        }
        Self { readings, machine: process::machine_cpu_seconds() }
    }

    /// Usage since an earlier reading; a new role starts at zero.
    pub(crate) fn usage_since(&self, earlier: &Self, events: usize) -> Vec<RoleUsage> {
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

/// CPU seconds used by other programs. Figures taken meanwhile are too low.
pub(crate) fn other_cpu_seconds(now: &CpuMeter, earlier: &CpuMeter) -> Option<f64> {
    let ours: f64 = now.usage_since(earlier, 1).iter().map(|role| role.cpu_seconds).sum();
    Some((now.machine? - earlier.machine? - ours).max(0.0))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_meter(machine: f64, roles: &[(&str, f64)]) -> CpuMeter {
        let reading = |(role, cpu_seconds): &(&str, f64)| CpuReading {
            role: (*role).to_owned(),
            cpu_seconds: *cpu_seconds,
            peak_rss: 1,
        };
        CpuMeter { readings: roles.iter().map(reading).collect(), machine: Some(machine) }
    }

    #[test]
    fn new_role_usage_starts_at_zero() {
        let (before, after) = (
            sample_meter(10.0, &[("ingress", 1.0)]),
            sample_meter(16.0, &[("ingress", 2.0), ("worker", 3.0)]),
        );
        let used: Vec<(String, f64, f64)> = after
            .usage_since(&before, 1_000_000)
            .into_iter()
            .map(|role| (role.role, role.cpu_seconds, role.cpu_micros_per_event))
            .collect();
        assert_eq!(used, [("ingress".to_owned(), 1.0, 1.0), ("worker".to_owned(), 3.0, 3.0)]);
        assert_eq!(other_cpu_seconds(&after, &before), Some(2.0));
        assert_eq!(other_cpu_seconds(&before, &after), Some(0.0), "never less than nothing");
    }
}
