//! Writes changes of items, all of them in one statement: the items, their dependent rows, and the totals.
//!
//! All or nothing. Items are locked in the order of their keys before anything else is touched, and unless
//! every one has the expected version nothing is written (optimistic concurrency). A statement that is its
//! own transaction needs no more than that. The parts of a statement run in no defined order: every row
//! except totals depends on a locked item, so totals are the only rows that can wait for a lock. The careful
//! path ([`crate::item_store`]) finds out which change conflicted; it has locked the items already when it
//! comes here.

use millstream_model::time::Timestamp;
use millstream_people::assignment::select::OpeningChange;
use millstream_store::item_store::{ItemCommit, mark_first_commits};
use millstream_store::notices::of_items;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::connection_cache::WarmConnections;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::item_rows::{PlacedItem, count_column, key_columns, place_openings, text_of};
use crate::totals::{self, TotalsByPerson, add_totals};

/// Whether changes need only this statement, and each is of another item.
pub(crate) fn are_plain(batch: &[ItemCommit]) -> bool {
    let is_plain = |commit: &ItemCommit| {
        let stays = match commit.change.opening.change {
            OpeningChange::None | OpeningChange::Update | OpeningChange::Close => true,
            // It may need a skill set that has no number yet.
            OpeningChange::Place => false,
        };
        stays && commit.settlement.is_none()
    };
    mark_first_commits(batch).all(|(commit, is_first)| is_first && is_plain(commit))
        && of_items(batch).is_empty()
}

const WRITE: &str = concat!(
    "
WITH held AS MATERIALIZED (
    SELECT i.version = k.expected AS fits
    FROM (SELECT u.* FROM unnest($6::text[], $7::text[], $8::bigint[]) AS u(tenant, item, expected)
          ORDER BY u.item COLLATE \"C\", u.tenant COLLATE \"C\") k
    CROSS JOIN LATERAL (
        SELECT i.version FROM items i WHERE i.item = k.item AND i.tenant = k.tenant
        FOR NO KEY UPDATE) i
), fence AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE held.fits) = cardinality($6) AS holds FROM held
), closed AS (
    DELETE FROM openings o USING unnest($14::text[], $15::text[]) AS k(tenant, item)
    WHERE o.item = k.item AND o.tenant = k.tenant AND (SELECT holds FROM fence)
), taken AS (
    UPDATE openings o
    SET needs = k.needs, barred = ARRAY(SELECT json_array_elements_text(k.barred::json))
    FROM unnest($16::text[], $17::text[], $18::int[], $19::text[]) AS k(tenant, item, needs, barred)
    WHERE o.item = k.item AND o.tenant = k.tenant AND (SELECT holds FROM fence)
), given AS (
    INSERT INTO assignments (tenant, assignment, item, person, queue, status, is_open, due_at, body)
    SELECT k.* FROM unnest($20::text[], $21::uuid[], $22::text[], $23::text[], $24::text[], $25::text[],
                           $26::boolean[], $27::bigint[], $28::text[]) AS k
    WHERE (SELECT holds FROM fence)
    ON CONFLICT (assignment, tenant) DO UPDATE SET
        status = excluded.status, is_open = excluded.is_open, due_at = excluded.due_at, body = excluded.body
), logged AS (
    INSERT INTO item_log (tenant, item, no, at, body)
    SELECT k.* FROM unnest($29::text[], $30::text[], $31::bigint[], $32::bigint[], $33::text[]) AS k
    WHERE (SELECT holds FROM fence)
), changed AS (
    UPDATE items i
    SET queue = k.queue, status = k.status, version = i.version + 1, due_at = k.due_at, ended_at = k.ended_at,
        body = k.body
    FROM unnest($6::text[], $7::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::text[])
        AS k(tenant, item, queue, status, due_at, ended_at, body)
    WHERE i.item = k.item AND i.tenant = k.tenant AND (SELECT holds FROM fence)
), added AS (",
    add_totals!("(SELECT holds FROM fence)"),
    "
)
SELECT holds FROM fence"
);

/// Writes the batch as its own transaction; returns whether it was written.
pub(crate) async fn write_alone(
    warm: &WarmConnections,
    batch: &[ItemCommit],
    now: Timestamp,
) -> PostgresResult<bool> {
    let (commits, sums): (Vec<&ItemCommit>, TotalsByPerson) = (batch.iter().collect(), totals::of(batch));
    Ok(warm.fetch_row(build_query(&commits, &sums, now)).await?.try_get("holds")?)
}

/// Changes of items whose rows are locked and have the expected versions, each item once.
pub(crate) async fn write(
    connection: &mut PgConnection,
    commits: &[&ItemCommit],
    sums: &TotalsByPerson,
    now: Timestamp,
) -> PostgresResult<()> {
    if commits.is_empty() {
        return totals::add(connection, sums, now).await;
    }
    let opened = commits.iter().filter(|one| one.change.opening.change == OpeningChange::Place);
    let placed: Vec<_> = opened
        .map(|commit| PlacedItem {
            key: &commit.key,
            work: &commit.change.work,
            barred: &commit.change.opening.barred,
            position: None,
        })
        .collect();
    // It may lock queues, and totals come last.
    place_openings(connection, &placed).await?;
    let row = build_query(commits, sums, now).fetch_one(connection).await?;
    if row.try_get::<bool, _>("holds")? {
        return Ok(());
    }
    Err(PostgresFailure::Unsettled("an item changed while its row was locked"))
}

fn build_query<'q>(
    commits: &'q [&'q ItemCommit],
    sums: &'q TotalsByPerson,
    now: Timestamp,
) -> Query<'q, Postgres, PgArguments> {
    let which = |wanted: OpeningChange| commits.iter().filter(move |one| one.change.opening.change == wanted);
    let openings = || which(OpeningChange::Update).map(|commit| &commit.change.opening);
    let changed = || {
        commits.iter().flat_map(|commit| {
            let work = &commit.change.work;
            let changed = commit.change.changed.iter().filter_map(|id| work.assignments.get(id));
            changed.map(|one| (&commit.key.tenant, one))
        })
    };
    let log = || commits.iter().flat_map(|commit| commit.change.log.iter().map(|entry| (&commit.key, entry)));
    let items = || commits.iter().map(|commit| &commit.change.work.item);
    let (tenants, ids) = key_columns(commits.iter().map(|commit| &commit.key));
    let closed = key_columns(which(OpeningChange::Close).map(|commit| &commit.key));
    let taken = key_columns(which(OpeningChange::Update).map(|commit| &commit.key));
    let logged = key_columns(log().map(|(key, _)| key));
    totals::bound(WRITE, sums, now)
        .bind(tenants)
        .bind(ids)
        .bind(commits.iter().map(|commit| commit.expected).collect::<Vec<_>>())
        .bind(items().map(|item| item.queue.as_str()).collect::<Vec<_>>())
        .bind(items().map(|item| item.status.as_str()).collect::<Vec<_>>())
        .bind(items().map(|item| item.due_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(items().map(|item| item.ended_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(items().map(text_of).collect::<Vec<_>>())
        .bind(closed.0)
        .bind(closed.1)
        .bind(taken.0)
        .bind(taken.1)
        .bind(openings().map(|opening| count_column(opening.needs)).collect::<Vec<_>>())
        .bind(openings().map(|opening| text_of(&opening.barred)).collect::<Vec<_>>())
        .bind(changed().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.id.0).collect::<Vec<Uuid>>())
        .bind(changed().map(|(_, one)| one.item.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.person.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.queue.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.status.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.status.is_open()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.deadline.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| text_of(one)).collect::<Vec<_>>())
        .bind(logged.0)
        .bind(logged.1)
        .bind(log().map(|(_, entry)| i64::from(entry.no)).collect::<Vec<_>>())
        .bind(log().map(|(_, entry)| entry.at.as_millis()).collect::<Vec<_>>())
        .bind(log().map(|(_, entry)| text_of(entry)).collect::<Vec<_>>())
}
