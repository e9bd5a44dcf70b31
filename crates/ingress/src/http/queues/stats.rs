//! Statistics of queues and people, read from running totals that every change adds to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_api::queue_stats::{ItemCounts, QueueStats, QueueStatsLine};
use millstream_model::id::{Name, PersonId};
use millstream_model::permission::Permission;
use millstream_model::time::Timestamp;
use millstream_people::assignment::stats::{AssignmentStats, AssignmentTotals, day_of};
use millstream_people::assignment::{AssignmentStatus, ItemStatus};
use millstream_store::assignments::TotalsFilter;

use crate::auth::TenantCaller;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/queue_stats", "queue_stats", get_queue_stats)
            .summary("Statistics per queue, per person, or per person and queue")
            .needs(Permission::ReadData)
            .query(&[
                ("queue", "Name"),
                ("person", "PersonId"),
                ("by", "StatsBy"),
                ("from", "Day"),
                ("to", "Day"),
            ])
            .returns::<QueueStats>(200, "One line per queue, person, or pair"),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatsGrouping {
    Queue,
    Person,
    Both,
}

impl std::fmt::Display for StatsGrouping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Person => "person",
            Self::Both => "both",
        })
    }
}

async fn get_queue_stats(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<QueueStats>, RequestRefusal> {
    let filter = TotalsFilter {
        queue: params.parse_param("queue", |text| Name::parse(text)),
        person: params.parse_param("person", |text| PersonId::parse(text)),
        from_day: params.parse_param("from", parse_day),
        to_day: params.parse_param("to", parse_day),
    };
    let by = params
        .parse_word("by", &[StatsGrouping::Queue, StatsGrouping::Person, StatsGrouping::Both])
        .unwrap_or(StatsGrouping::Queue);
    params.finish_params()?;
    let found = door.stores.assignment_views.sum_totals(&caller.tenant, &filter).await?;
    let mut sums: BTreeMap<(Option<Name>, Option<PersonId>), AssignmentTotals> = BTreeMap::new();
    for (queue, person, totals) in found {
        let key = match by {
            StatsGrouping::Queue => (Some(queue), None),
            StatsGrouping::Person if person.is_none() => continue,
            StatsGrouping::Person => (None, person),
            StatsGrouping::Both => (Some(queue), person),
        };
        sums.entry(key).or_default().merge(&totals);
    }
    let is_whole = by == StatsGrouping::Queue && filter.person.is_none() && filter.from_day.is_none();
    let lines = sums.into_iter().map(|((queue, person), totals)| {
        let mut line = stats_line(queue, person, &totals);
        if !is_whole {
            // Created items are counted for the queue, not for a person, and on the day of their creation.
            line.items.open = None;
        }
        line
    });
    Ok(Json(QueueStats { items: lines.collect() }))
}

fn stats_line(queue: Option<Name>, person: Option<PersonId>, totals: &AssignmentTotals) -> QueueStatsLine {
    let report = AssignmentStats::from_totals(totals);
    let assignments = |status: AssignmentStatus| report.by_status.get(status.as_str()).copied().unwrap_or(0);
    let items = |status: ItemStatus| report.items.get(status.as_str()).copied().unwrap_or(0);
    QueueStatsLine {
        queue: queue.map(|queue| queue.to_string()),
        person: person.map(|person| person.to_string()),
        completed: assignments(AssignmentStatus::Completed),
        expired: assignments(AssignmentStatus::Expired),
        in_progress: assignments(AssignmentStatus::InProgress),
        pending: assignments(AssignmentStatus::Pending),
        skipped: assignments(AssignmentStatus::Skipped),
        total: report.total,
        completion_rate: report.completion_rate,
        skip_rate: report.skip_rate,
        expiry_rate: report.expiry_rate,
        average_seconds_to_complete: report.average_seconds_to_complete,
        average_attempts: report.average_attempts,
        items: ItemCounts {
            done: items(ItemStatus::Done),
            escalated: items(ItemStatus::Escalated),
            failed: items(ItemStatus::Failed),
            open: Some(items(ItemStatus::Open)),
            withdrawn: items(ItemStatus::Withdrawn),
        },
    }
}

fn parse_day(text: &str) -> Result<i64, &'static str> {
    let wrong = "is not a day like 2026-01-31";
    let at = Timestamp::parse(&format!("{text}T00:00:00Z")).map_err(|_| wrong)?;
    if text.len() == 10 { Ok(day_of(at)) } else { Err(wrong) }
}
