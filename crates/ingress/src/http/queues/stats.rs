//! Statistics of queues and people, read from running totals that every change adds to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_model::id::{Name, PersonId};
use millstream_model::permission::Permission;
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemStatus;
use millstream_people::assignment::stats::{AssignmentStats, AssignmentTotals, day_of};
use millstream_store::assignments::TotalsFilter;
use serde::Serialize;

use crate::auth::TenantCaller;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::ItemList;
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
            .answer(200, "QueueStats", "One line per queue, person, or pair"),
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

#[derive(Debug, Serialize)]
struct QueueStatsLine {
    queue: Option<Name>,
    /// Null where the line is about the whole queue.
    person: Option<PersonId>,
    #[serde(flatten)]
    by_status: BTreeMap<&'static str, i64>,
    total: i64,
    completion_rate: Option<f64>,
    skip_rate: Option<f64>,
    expiry_rate: Option<f64>,
    average_seconds_to_complete: Option<f64>,
    average_attempts: Option<f64>,
    /// `open` is a remainder: it is reported for whole queues from their first day only.
    items: BTreeMap<&'static str, i64>,
}

async fn get_queue_stats(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<ItemList<QueueStatsLine>>, RequestRefusal> {
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
    let items = sums.into_iter().map(|((queue, person), totals)| {
        let mut line = stats_line(queue, person, &totals);
        if !is_whole {
            // Created items are counted for the queue, not for a person, and on the day of their creation.
            line.items.remove(ItemStatus::Open.as_str());
        }
        line
    });
    Ok(Json(ItemList { items: items.collect() }))
}

fn stats_line(queue: Option<Name>, person: Option<PersonId>, totals: &AssignmentTotals) -> QueueStatsLine {
    let report = AssignmentStats::from_totals(totals);
    QueueStatsLine {
        queue,
        person,
        by_status: report.by_status,
        total: report.total,
        completion_rate: report.completion_rate,
        skip_rate: report.skip_rate,
        expiry_rate: report.expiry_rate,
        average_seconds_to_complete: report.average_seconds_to_complete,
        average_attempts: report.average_attempts,
        items: report.items,
    }
}

fn parse_day(text: &str) -> Result<i64, &'static str> {
    let wrong = "is not a day like 2026-01-31";
    let at = Timestamp::parse(&format!("{text}T00:00:00Z")).map_err(|_| wrong)?;
    if text.len() == 10 { Ok(day_of(at)) } else { Err(wrong) }
}
