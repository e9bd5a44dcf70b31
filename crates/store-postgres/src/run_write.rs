//! Writes the result of a run commit in one statement: the runs, their seats and their logs.
//!
//! Existing runs are locked before ([`crate::run_rows::lock`]). New ones need no lock: when a concurrent
//! transaction creates one of them, the statement rolls itself back as a whole.

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
use sqlx::{PgConnection, Postgres};

use crate::action_rows::millis;
use crate::connection_cache::WarmConnections;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::run_rows::RunColumns;

/// Whether a commit creates runs and does nothing else.
pub(crate) fn only_creates(units: &[RunUnit]) -> bool {
    let mut writes = units.iter().flat_map(|unit| &unit.writes);
    writes.all(|write| write.expected == ExpectedVersion::Nothing && write.settlement.is_none())
}

const WRITE: &str = "
WITH created AS (
    INSERT INTO runs (tenant, run_id, kind, status, version, body, ended_at, execution_id, updated_at)
    SELECT k.*, $9
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[])
        AS k(tenant, run_id, kind, status, version, body, ended_at, execution_id)
    ON CONFLICT (run_id, tenant) DO NOTHING
    RETURNING 1
), changed AS (
    UPDATE runs r SET status = k.status, version = k.version, body = k.body, ended_at = k.ended_at, updated_at = $9
    FROM unnest($10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[], $15::bigint[])
        AS k(tenant, run_id, status, version, body, ended_at)
    WHERE r.tenant = k.tenant AND r.run_id = k.run_id
), seated AS (
    INSERT INTO run_seats (tenant, run_id, seat, status, device, token, priority, assigned_at, due_at, heard_at,
                           silence_ms, begin_by, paused, progress)
    SELECT k.*
    FROM unnest($16::text[], $17::text[], $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::bigint[],
                $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[], $28::boolean[],
                $29::text[])
        AS k(tenant, run_id, seat, status, device, token, priority, assigned_at, due_at, heard_at, silence_ms,
             begin_by, paused, progress)
    ON CONFLICT (run_id, tenant, seat) DO UPDATE SET
        status = excluded.status, device = excluded.device, token = excluded.token, priority = excluded.priority,
        assigned_at = excluded.assigned_at, due_at = excluded.due_at, heard_at = excluded.heard_at,
        silence_ms = excluded.silence_ms, begin_by = excluded.begin_by, paused = excluded.paused,
        progress = excluded.progress
), logged AS (
    INSERT INTO run_log (tenant, run_id, body)
    SELECT k.tenant, k.run_id, k.body
    FROM unnest($30::text[], $31::text[], $32::text[]) WITH ORDINALITY AS k(tenant, run_id, body, ord)
    ORDER BY k.ord
)
SELECT 1 / CASE WHEN (SELECT count(*) FROM created) = cardinality($1) THEN 1 ELSE 0 END AS complete";

/// Creates runs as a transaction of its own. Returns whether they were written: otherwise one of them exists.
pub(crate) async fn create_alone(
    warm: &WarmConnections,
    plan: &RunCommitPlan<'_>,
    now: Timestamp,
) -> PostgresResult<bool> {
    if plan.refused.iter().any(Option::is_some) || !of_runs(plan.writes.iter().copied()).is_empty() {
        return Ok(false);
    }
    match warm.fetch_row(build_query(&RunWriteRows::of(plan), now)).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_division_by_zero() => Ok(false),
        Err(failure) => Err(failure),
    }
}

pub(crate) async fn write(
    connection: &mut PgConnection,
    plan: &RunCommitPlan<'_>,
    now: Timestamp,
) -> PostgresResult<()> {
    match build_query(&RunWriteRows::of(plan), now).fetch_one(connection).await.map_err(PostgresFailure::from)
    {
        Ok(_) => Ok(()),
        // The retry finds it.
        Err(failure) if failure.is_division_by_zero() => {
            Err(PostgresFailure::Unsettled("a concurrent transaction created one of the runs"))
        }
        Err(failure) => Err(failure),
    }
}

/// The rows to write, by table.
struct RunWriteRows<'a> {
    new: Vec<(&'a RunKey, &'a ResultingRun)>,
    known: Vec<(&'a RunKey, &'a ResultingRun)>,
    seats: Vec<(&'a RunKey, SeatRow)>,
    log: Vec<(&'a RunKey, String)>,
}

impl<'a> RunWriteRows<'a> {
    fn of(plan: &'a RunCommitPlan<'a>) -> Self {
        let (new, known) =
            plan.runs.iter().map(|(key, left)| (*key, left)).partition(|(_, left)| left.is_new);
        let seats = plan
            .runs
            .iter()
            .flat_map(|(key, left)| run_seats::seat_rows(&left.run).into_iter().map(|row| (*key, row)));
        let log = plan.writes.iter().flat_map(|write| {
            write.log.iter().map(|entry| (&write.key, RawJson::from_value(entry).as_str().to_owned()))
        });
        Self { new, known, seats: seats.collect(), log: log.collect() }
    }
}

fn build_query<'q>(rows: &'q RunWriteRows<'q>, now: Timestamp) -> Query<'q, Postgres, PgArguments> {
    let RunWriteRows { new, known, seats, log } = rows;
    let execution = |left: &'q ResultingRun| {
        let waiting = left.run.waiting.as_ref()?;
        Some(waiting.key.execution.execution.as_str())
    };
    let each = || seats.iter().map(|(_, row)| row);
    let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let keys: RunColumns<'q> = new.iter().map(|(key, _)| *key).collect();
    let query = keys
        .bind_to(sqlx::query(WRITE))
        .bind(new.iter().map(|(_, left)| left.run.kind.as_str()).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, left)| left.run.status().as_str()).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, left)| left.version).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, left)| encode_body(left)).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, left)| ended_at(left)).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, left)| execution(left)).collect::<Vec<_>>())
        .bind(now.as_millis());
    let keys: RunColumns<'q> = known.iter().map(|(key, _)| *key).collect();
    let query = keys
        .bind_to(query)
        .bind(known.iter().map(|(_, left)| left.run.status().as_str()).collect::<Vec<_>>())
        .bind(known.iter().map(|(_, left)| left.version).collect::<Vec<_>>())
        .bind(known.iter().map(|(_, left)| encode_body(left)).collect::<Vec<_>>())
        .bind(known.iter().map(|(_, left)| ended_at(left)).collect::<Vec<_>>());
    let keys: RunColumns<'q> = seats.iter().map(|(key, _)| *key).collect();
    let query = keys
        .bind_to(query)
        .bind(each().map(|row| i64::from(row.seat)).collect::<Vec<_>>())
        .bind(each().map(|row| row.status.as_str()).collect::<Vec<_>>())
        .bind(each().map(|row| row.device.as_ref().map(DeviceId::as_str)).collect::<Vec<_>>())
        .bind(each().map(|row| row.token.map(|token| token.0)).collect::<Vec<_>>())
        .bind(each().map(|row| i64::from(row.priority)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.assigned_at)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.due_at)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.heard_at)).collect::<Vec<_>>())
        .bind(each().map(|row| millis(row.silence)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.begin_by)).collect::<Vec<_>>())
        .bind(each().map(|row| row.pause == PauseState::Paused).collect::<Vec<_>>())
        .bind(each().map(|row| row.progress.as_ref().map(RawJson::as_str)).collect::<Vec<_>>());
    let keys: RunColumns<'q> = log.iter().map(|(key, _)| *key).collect();
    keys.bind_to(query).bind(log.iter().map(|(_, body)| body.as_str()).collect::<Vec<_>>())
}

fn encode_body(left: &ResultingRun) -> String {
    RawJson::from_value(&left.run).as_str().to_owned()
}

fn ended_at(left: &ResultingRun) -> Option<i64> {
    left.run.ended_at().map(Timestamp::as_millis)
}
