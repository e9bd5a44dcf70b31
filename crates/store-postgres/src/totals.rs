//! Totals of people's work (aggregates), to which every change adds: by queue and person, and by queue alone.
//!
//! Their rows are locked after all others, in the order of their keys. People who work concurrently change
//! different rows; only concurrent requests of one person meet.

use std::collections::BTreeMap;

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::stats::{self, AssignmentTotals};
use millstream_store::item_store::ItemCommit;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use crate::errors::PostgresResult;

/// In the order in which their rows are locked.
pub(crate) type TotalsByPerson = BTreeMap<(TenantId, Name, Option<PersonId>), AssignmentTotals>;

/// The totals that changes add to.
pub(crate) fn of<'c>(commits: impl IntoIterator<Item = &'c ItemCommit>) -> TotalsByPerson {
    let mut sums: TotalsByPerson = BTreeMap::new();
    for commit in commits {
        for ((queue, person), added) in &commit.totals {
            let key = (commit.key.tenant.clone(), queue.clone(), person.clone());
            sums.entry(key).or_default().merge(added);
        }
    }
    sums
}

/// `$1` to `$5` are [`bound`]; the numbers of all rows are one array. `$when` is a condition for all of it.
macro_rules! add_totals {
    ($when:literal) => {
        concat!(
            "
    INSERT INTO queue_totals AS t (tenant, queue, person, day, created, started, completed, skipped,
        expired_pending, expired_started, completing_millis, completed_attempts, items_imported, items_done,
        items_failed, items_withdrawn, items_escalated)
    SELECT k.tenant, k.queue, k.person, $4, k.s[k.n + 1], k.s[k.n + 2], k.s[k.n + 3], k.s[k.n + 4], k.s[k.n + 5],
           k.s[k.n + 6], k.s[k.n + 7], k.s[k.n + 8], k.s[k.n + 9], k.s[k.n + 10], k.s[k.n + 11], k.s[k.n + 12],
           k.s[k.n + 13]
    FROM (SELECT u.tenant, u.queue, u.person, (u.ord::int - 1) * 13 AS n, $5::bigint[] AS s
          FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS u(tenant, queue, person, ord)) k
    WHERE ",
            $when,
            "
    ON CONFLICT (tenant, queue, person, day) DO UPDATE SET
        created = t.created + excluded.created, started = t.started + excluded.started,
        completed = t.completed + excluded.completed, skipped = t.skipped + excluded.skipped,
        expired_pending = t.expired_pending + excluded.expired_pending,
        expired_started = t.expired_started + excluded.expired_started,
        completing_millis = t.completing_millis + excluded.completing_millis,
        completed_attempts = t.completed_attempts + excluded.completed_attempts,
        items_imported = t.items_imported + excluded.items_imported,
        items_done = t.items_done + excluded.items_done, items_failed = t.items_failed + excluded.items_failed,
        items_withdrawn = t.items_withdrawn + excluded.items_withdrawn,
        items_escalated = t.items_escalated + excluded.items_escalated"
        )
    };
}
pub(crate) use add_totals;

/// The totals as `$1` to `$5` of a statement.
pub(crate) fn bound<'q>(
    sql: &'static str,
    sums: &'q TotalsByPerson,
    now: Timestamp,
) -> Query<'q, Postgres, PgArguments> {
    let person = |person: &'q Option<PersonId>| person.as_ref().map_or("", PersonId::as_str);
    sqlx::query(sql)
        .bind(sums.keys().map(|(tenant, _, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(sums.keys().map(|(_, queue, _)| queue.as_str()).collect::<Vec<_>>())
        .bind(sums.keys().map(|(_, _, whose)| person(whose)).collect::<Vec<_>>())
        .bind(stats::day_of(now))
        .bind(sums.values().flat_map(|totals| totals.0).collect::<Vec<i64>>())
}

pub(crate) async fn add(
    connection: &mut PgConnection,
    sums: &TotalsByPerson,
    now: Timestamp,
) -> PostgresResult<()> {
    const ADD: &str = add_totals!("TRUE");
    if !sums.is_empty() {
        bound(ADD, sums, now).execute(connection).await?;
    }
    Ok(())
}
