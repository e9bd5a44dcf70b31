//! Gauges of people's queues (aggregated totals), devices and seats.

use std::sync::Arc;
use std::time::Duration;

use ::metrics::gauge;
use millstream_devices::claim::{RunSettings, SeatStatus};
use millstream_people::assignment::queue_totals::{QueueTotals, TotalsByQueue};
use millstream_people::assignment::stats::{AssignmentStats, AssignmentTotals, day_of};
use tokio::sync::Mutex;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::metrics;

pub(crate) const PERIOD: Duration = Duration::from_secs(15);

/// `known` caches totals that no longer change.
pub(crate) async fn measure_queue_totals(
    env: Arc<WorkerEnvironment>,
    known: Arc<Mutex<QueueTotals>>,
) -> Result<(), DutyError> {
    let views = &env.stores.assignment_views;
    let mut known = known.lock().await;
    if let Some(days) = known.days_to_close(day_of(env.now())) {
        let sums = views.totals_by_queue(days.clone()).await?;
        known.close_days(&days, sums);
    }
    record_queue_gauges(&known.with_open_days(views.totals_by_queue(known.open_days()).await?));
    record_fleet_gauges(&env).await
}

/// Over all queues: tenants choose their names, so a label would be unbounded. `queue_stats` reports single
/// queues.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn record_queue_gauges(standing: &TotalsByQueue) {
    let mut all = AssignmentTotals::default();
    standing.values().for_each(|totals| all.merge(totals));
    let report = AssignmentStats::from_totals(&all);
    for (status, count) in &report.by_status {
        gauge!(metrics::QUEUE_ASSIGNMENTS, "status" => *status).set(*count as f64);
    }
    for (status, count) in &report.items {
        gauge!(metrics::QUEUE_ITEMS, "status" => *status).set(*count as f64);
    }
    gauge!(metrics::QUEUES).set(standing.len() as f64);
    let figures = [
        (metrics::QUEUE_COMPLETION, report.completion_rate),
        (metrics::QUEUE_SKIPS, report.skip_rate),
        (metrics::QUEUE_EXPIRIES, report.expiry_rate),
        (metrics::QUEUE_SECONDS, report.average_seconds_to_complete),
        (metrics::QUEUE_ATTEMPTS, report.average_attempts),
    ];
    for (name, figure) in figures {
        figure.into_iter().for_each(|figure| gauge!(name).set(figure));
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
async fn record_fleet_gauges(env: &WorkerEnvironment) -> Result<(), DutyError> {
    let since = env.now().minus(RunSettings::default().reachable);
    let counts = env.stores.run_views.count_fleet(since).await?;
    gauge!(metrics::DEVICES).set(counts.devices as f64);
    gauge!(metrics::DEVICES_REACHABLE).set(counts.heard as f64);
    for status in SeatStatus::ALL.iter().filter(|status| status.is_held() || status.is_open()) {
        let seats = counts.seats.get(status).copied().unwrap_or(0);
        gauge!(metrics::RUN_SEATS, "status" => status.as_str()).set(seats as f64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use millstream_model::id::{Name, TenantId};
    use millstream_people::assignment::stats::AssignmentCounter;

    use super::*;

    #[test]
    fn queue_gauges_show_status_and_rates() {
        let mut totals = AssignmentTotals::default();
        let counted = [
            (AssignmentCounter::ItemsImported, 9),
            (AssignmentCounter::ItemsDone, 2),
            (AssignmentCounter::Created, 5),
            (AssignmentCounter::Started, 4),
            (AssignmentCounter::Completed, 2),
            (AssignmentCounter::Skipped, 1),
            (AssignmentCounter::CompletingMillis, 3_000),
            (AssignmentCounter::CompletedAttempts, 3),
        ];
        counted.into_iter().for_each(|(counter, count)| totals.add(counter, count));
        let queue = (TenantId::default_tenant(), Name::parse("review").unwrap());
        let idle = (TenantId::default_tenant(), Name::parse("idle").unwrap());
        let recorder = PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || {
            record_queue_gauges(&[(queue, totals), (idle, AssignmentTotals::default())].into());
        });
        let told = recorder.handle().render();
        for line in [
            "millstream_queue_items{status=\"open\"} 7",
            "millstream_queue_assignments{status=\"pending\"} 1",
            "millstream_queue_assignments{status=\"in_progress\"} 1",
            "millstream_queue_completion_ratio 0.4",
            "millstream_queue_skip_ratio 0.2",
            "millstream_queue_expiry_ratio 0",
            "millstream_queue_average_seconds_to_complete 1.5",
            "millstream_queue_average_attempts 1.5",
            "millstream_queues 2",
        ] {
            assert!(told.lines().any(|told| told == line), "{line} is missing in\n{told}");
        }
        let recorder = PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || record_queue_gauges(&TotalsByQueue::default()));
        assert!(!recorder.handle().render().contains("ratio"), "there is no rate of nothing");
    }
}
