//! Writes the result of a run commit in one statement: the runs, their seats and their logs.
//!
//! Existing runs are locked before ([`crate::run_rows::lock`]). New ones need no lock: where a concurrent
//! transaction has created the same run, the insertion waits for it and then writes nothing, and neither do the
//! seats and the log of that run. The answer names the created runs if any was not.

use std::collections::BTreeSet;

use millstream_model::id::{DeviceId, RunKey};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::notices::of_runs;
use millstream_store::run_commit::{ResultingRun, RunCommitPlan};
use millstream_store::run_seats::{self, SeatRow};
use millstream_store::run_store::{ExpectedVersion, RunUnit};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use crate::action_rows::millis;
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;
use crate::statement_inputs::{InputTable, NamedStatement, StatementInputs};

/// Whether a commit creates runs, one per unit, and does nothing else.
pub(crate) fn only_creates(units: &[RunUnit]) -> bool {
    units.iter().all(|unit| match &unit.writes[..] {
        [write] => write.expected == ExpectedVersion::Nothing && write.settlement.is_none(),
        [..] => false,
    })
}

static WRITE: NamedStatement = NamedStatement::new(
    "
WITH created AS (
    INSERT INTO runs ({new.columns}, updated_at)
    SELECT k.*, {now} FROM {new}
    ON CONFLICT (run_id, tenant) DO NOTHING
    RETURNING tenant, run_id
), fence AS MATERIALIZED (
    SELECT count(*) = {new.count} AS holds FROM created
), changed AS (
    UPDATE runs r SET {known.changes}, updated_at = {now}
    FROM {known}
    WHERE r.tenant = k.tenant AND r.run_id = k.run_id
), seated AS (
    INSERT INTO run_seats ({seats.columns})
    SELECT k.* FROM {seats}
    WHERE (SELECT holds FROM fence) OR (k.tenant, k.run_id) IN (SELECT c.tenant, c.run_id FROM created c)
    ON CONFLICT (run_id, tenant, seat) DO UPDATE SET {seats.replacements}
), logged AS (
    INSERT INTO run_log ({log.columns})
    SELECT {log.columns} FROM {log.ordered}
    WHERE (SELECT holds FROM fence) OR (k.tenant, k.run_id) IN (SELECT c.tenant, c.run_id FROM created c)
    ORDER BY k.ord
)
SELECT f.holds,
       CASE WHEN NOT f.holds THEN ARRAY(SELECT c.tenant FROM created c) END AS tenants,
       CASE WHEN NOT f.holds THEN ARRAY(SELECT c.run_id FROM created c) END AS runs
FROM fence f",
);

/// The runs that a statement has created.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CreatedRuns {
    All,
    /// The others exist.
    Only(BTreeSet<RunKey>),
}

/// Creates the runs that do not exist, as a transaction of its own. `None`, and nothing written, when the plan
/// needs a transaction of several statements.
pub(crate) async fn create_alone(
    warm: &WarmConnections,
    plan: &RunCommitPlan<'_>,
    now: Timestamp,
) -> PostgresResult<Option<CreatedRuns>> {
    if plan.refused.iter().any(Option::is_some) || !of_runs(plan.writes.iter().copied()).is_empty() {
        return Ok(None);
    }
    let row = warm.fetch_row(build_query(&RunWriteRows::of(plan), now)).await?;
    if row.try_get("holds")? {
        return Ok(Some(CreatedRuns::All));
    }
    let (tenants, runs): (Vec<String>, Vec<String>) = (row.try_get("tenants")?, row.try_get("runs")?);
    let created: BTreeSet<(&str, &str)> =
        tenants.iter().map(String::as_str).zip(runs.iter().map(String::as_str)).collect();
    let is_created = |key: &&&RunKey| created.contains(&(key.tenant.as_str(), key.run.as_str()));
    let created = plan.runs.keys().filter(is_created).map(|key| (*key).clone());
    Ok(Some(CreatedRuns::Only(created.collect())))
}

/// Whether the runs of a plan could be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceVerdict {
    Holds,
    /// One of them exists: the transaction has to be rolled back.
    Lost,
}

/// Writes a plan within a transaction.
pub(crate) async fn write(
    connection: &mut PgConnection,
    plan: &RunCommitPlan<'_>,
    now: Timestamp,
) -> PostgresResult<FenceVerdict> {
    let row = build_query(&RunWriteRows::of(plan), now).fetch_one(connection).await?;
    Ok(if row.try_get("holds")? { FenceVerdict::Holds } else { FenceVerdict::Lost })
}

/// The rows to write, by table.
struct RunWriteRows<'a> {
    new: Vec<RunRow<'a>>,
    known: Vec<RunRow<'a>>,
    seats: Vec<(&'a RunKey, SeatRow)>,
    log: Vec<(&'a RunKey, RawJson)>,
}

impl<'a> RunWriteRows<'a> {
    fn of(plan: &'a RunCommitPlan<'a>) -> Self {
        let row = |(key, left): (&&'a RunKey, &'a ResultingRun)| RunRow {
            key,
            left,
            body: RawJson::from_value(&left.run),
        };
        let (new, known) = plan.runs.iter().map(row).partition(|row| row.left.is_new);
        let seats = plan
            .runs
            .iter()
            .flat_map(|(key, left)| run_seats::seat_rows(&left.run).into_iter().map(|row| (*key, row)));
        let log = plan
            .writes
            .iter()
            .flat_map(|write| write.log.iter().map(|entry| (&write.key, RawJson::from_value(entry))));
        Self { new, known, seats: seats.collect(), log: log.collect() }
    }
}

/// A row of `runs`, with its document as text.
#[derive(Debug)]
struct RunRow<'a> {
    key: &'a RunKey,
    left: &'a ResultingRun,
    body: RawJson,
}

/// The columns that every commit writes.
fn known_table<'q, 'a>(rows: &'q [RunRow<'a>]) -> InputTable<'q, RunRow<'a>> {
    InputTable::of(rows)
        .run_key(|row| row.key)
        .end_of_key()
        .text("status", |row| row.left.run.status().as_str())
        .number("version", |row| row.left.version)
        .text("body", |row| row.body.as_str())
        .number("ended_at", |row| row.left.run.ended_at().map(Timestamp::as_millis))
}

/// The same with the columns that never change.
fn new_table<'q, 'a>(rows: &'q [RunRow<'a>]) -> InputTable<'q, RunRow<'a>> {
    known_table(rows)
        .text("kind", |row| row.left.run.kind.as_str())
        .text("execution_id", |row| Some(row.left.run.waiting.as_ref()?.key.execution.execution.as_str()))
}

fn seat_table<'q, 'a>(rows: &'q [(&'a RunKey, SeatRow)]) -> InputTable<'q, (&'a RunKey, SeatRow)> {
    let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    InputTable::of(rows)
        .run_key(|row| row.0)
        .number("seat", |row| i64::from(row.1.seat))
        .end_of_key()
        .text("status", |row| row.1.status.as_str())
        .text("device", |row| row.1.device.as_ref().map(DeviceId::as_str))
        .number("token", |row| row.1.token.map(|token| token.0))
        .number("priority", |row| i64::from(row.1.priority))
        .number("assigned_at", move |row| time(row.1.assigned_at))
        .number("due_at", move |row| time(row.1.due_at))
        .number("heard_at", move |row| time(row.1.heard_at))
        .number("silence_ms", |row| millis(row.1.silence))
        .number("begin_by", move |row| time(row.1.begin_by))
        .flag("paused", |row| row.1.pause == PauseState::Paused)
        .text("progress", |row| row.1.progress.as_ref().map(RawJson::as_str))
}

fn log_table<'q, 'a>(rows: &'q [(&'a RunKey, RawJson)]) -> InputTable<'q, (&'a RunKey, RawJson)> {
    InputTable::of(rows).run_key(|row| row.0).text("body", |row| row.1.as_str())
}

fn build_query<'q>(rows: &'q RunWriteRows<'_>, now: Timestamp) -> Query<'q, Postgres, PgArguments> {
    WRITE.bind(
        StatementInputs::default()
            .table("new", new_table(&rows.new))
            .number("now", now.as_millis())
            .table("known", known_table(&rows.known))
            .table("seats", seat_table(&rows.seats))
            .table("log", log_table(&rows.log)),
    )
}
