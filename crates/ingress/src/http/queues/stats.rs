//! Statistics of queues and people, read from running totals that every change adds to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_core::assignment::ItemStatus;
use millstream_core::assignment::stats::{Report, Totals, day};
use millstream_core::id::{Name, PersonId};
use millstream_core::permission::Permission;
use millstream_core::time::Timestamp;
use millstream_store::assignments::TotalsFilter;
use serde::Serialize;

use crate::auth::Caller;
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Items;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/queue_stats", "queue_stats", stats)
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
enum By {
    Queue,
    Person,
    Both,
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Person => "person",
            Self::Both => "both",
        })
    }
}

#[derive(Debug, Serialize)]
struct Line {
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

async fn stats(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Items<Line>>, Problem> {
    let filter = TotalsFilter {
        queue: params.parsed("queue", |text| Name::parse(text)),
        person: params.parsed("person", |text| PersonId::parse(text)),
        from_day: params.parsed("from", date),
        to_day: params.parsed("to", date),
    };
    let by = params.word("by", &[By::Queue, By::Person, By::Both]).unwrap_or(By::Queue);
    params.finish()?;
    let found = door.stores.assignment_views.totals(&caller.tenant, &filter).await?;
    let mut sums: BTreeMap<(Option<Name>, Option<PersonId>), Totals> = BTreeMap::new();
    for (queue, person, totals) in found {
        let key = match by {
            By::Queue => (Some(queue), None),
            By::Person if person.is_none() => continue,
            By::Person => (None, person),
            By::Both => (Some(queue), person),
        };
        sums.entry(key).or_default().merge(&totals);
    }
    let is_whole = by == By::Queue && filter.person.is_none() && filter.from_day.is_none();
    let items = sums.into_iter().map(|((queue, person), totals)| {
        let mut line = line(queue, person, &totals);
        if !is_whole {
            // Created items are counted for the queue, not for a person, and on the day of their creation.
            line.items.remove(ItemStatus::Open.as_str());
        }
        line
    });
    Ok(Json(Items { items: items.collect() }))
}

fn line(queue: Option<Name>, person: Option<PersonId>, totals: &Totals) -> Line {
    let report = Report::of(totals);
    Line {
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

fn date(text: &str) -> Result<i64, &'static str> {
    let wrong = "is not a day like 2026-01-31";
    let at = Timestamp::parse(&format!("{text}T00:00:00Z")).map_err(|_| wrong)?;
    if text.len() == 10 { Ok(day(at)) } else { Err(wrong) }
}
