//! Decides every hostile case once and measures the cost.

use std::time::Duration;

use millstream_expr::{BudgetEnd, ExprBudget, StopRule};
use serde::Serialize;

use super::{CaseScale, generated_cases, reviewed_cases};
use crate::error::BenchResult;

/// What was measured over all cases.
#[derive(Debug, Clone, Serialize)]
pub struct ExpressionReport {
    pub cases: usize,
    /// Cases that used up the work budget, or the memory budget, of a step.
    pub over_work: usize,
    pub over_memory: usize,
    /// CPU time of one step.
    pub cpu_ms_max: f64,
    pub cpu_ms_p99: f64,
    pub slowest: String,
    /// Maximum bytes held at once by one step, as the budget counts them.
    pub bytes_max: u64,
    pub largest: String,
}

/// Decides every case once. Blocks meanwhile.
pub fn measure_cases(count: usize, seed: u64) -> BenchResult<ExpressionReport> {
    let mut cases = reviewed_cases(CaseScale::FULL)?;
    cases.extend(generated_cases(count.saturating_sub(cases.len()), seed, CaseScale::FULL)?);
    let mut report = ExpressionReport {
        cases: cases.len(),
        over_work: 0,
        over_memory: 0,
        cpu_ms_max: 0.0,
        cpu_ms_p99: 0.0,
        slowest: String::new(),
        bytes_max: 0,
        largest: String::new(),
    };
    let mut times = Vec::with_capacity(cases.len());
    for case in &cases {
        let budget = ExprBudget::of_step(StopRule::NEVER);
        let begun = cpu_time();
        case.run(&budget);
        let took = cpu_time().saturating_sub(begun).as_secs_f64() * 1_000.0;
        times.push(took);
        match budget.end() {
            Some(BudgetEnd::Work) => report.over_work += 1,
            Some(BudgetEnd::Bytes) => report.over_memory += 1,
            Some(BudgetEnd::Stopped) | None => {}
        }
        if took > report.cpu_ms_max {
            (report.cpu_ms_max, report.slowest) = (took, case.name.clone());
        }
        if budget.peak_bytes() > report.bytes_max {
            (report.bytes_max, report.largest) = (budget.peak_bytes(), case.name.clone());
        }
    }
    times.sort_by(f64::total_cmp);
    report.cpu_ms_p99 = times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(0.0);
    Ok(report)
}

/// The report as a table.
pub fn render_report(report: &ExpressionReport) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mib = report.bytes_max as f64 / 1024.0 / 1024.0;
    format!(
        "{} hostile steps, {} over the work and {} over the memory of a step\n\
         CPU of one step    max {:.1} ms   p99 {:.1} ms   slowest: {}\n\
         held by one step   max {mib:.1} MiB              largest: {}\n",
        report.cases,
        report.over_work,
        report.over_memory,
        report.cpu_ms_max,
        report.cpu_ms_p99,
        report.slowest,
        report.largest
    )
}

/// CPU time of this thread.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Fallback without a CPU clock: wall time since an arbitrary moment.
#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
