//! Inserting event rows: as accepted at the door, as emitted by a commit, with numbers taken before.
//!
//! Acceptance numbers come from one sequence. Where a statement draws them itself, it draws them over
//! a sorted subquery: the numbers follow the order of the batch.

use std::collections::HashMap;

use millstream_core::id::{AcceptNo, EventId, TenantId};
use millstream_core::log::Origin;
use millstream_core::status::EventStatus;
use millstream_core::time::Timestamp;
use millstream_store::event_log::NewEvent;
use sqlx::PgConnection;
use sqlx::postgres::{PgArguments, PgExecutor};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use crate::decode;
use crate::errors::Attempt;

/// The columns of new events, one array each.
#[derive(Debug, Default)]
pub(crate) struct EventColumns<'a> {
    tenants: Vec<&'a str>,
    event_ids: Vec<Uuid>,
    executions: Vec<&'a str>,
    names: Vec<&'a str>,
    payloads: Vec<&'a str>,
    timer_seqs: Vec<Option<i64>>,
    actors: Vec<Option<&'a str>>,
    traceparents: Vec<Option<&'a str>>,
}

impl<'a> FromIterator<&'a NewEvent> for EventColumns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a NewEvent>>(events: I) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.tenants.push(event.execution.tenant.as_str());
            columns.event_ids.push(event.event_id.0);
            columns.executions.push(event.execution.execution.as_str());
            columns.names.push(event.name.as_str());
            columns.payloads.push(event.payload.as_str());
            columns.timer_seqs.push(match event.origin {
                Origin::Posted => None,
                Origin::Timer { armed_seq } => Some(armed_seq.0),
            });
            columns.actors.push(event.actor.as_deref());
            columns.traceparents.push(event.traceparent.as_deref());
        }
        columns
    }
}

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

impl EventColumns<'_> {
    fn bound<'q>(&'q self, sql: &'static str) -> PgQuery<'q> {
        sqlx::query(sql)
            .bind(&self.tenants)
            .bind(&self.event_ids)
            .bind(&self.executions)
            .bind(&self.names)
            .bind(&self.payloads)
            .bind(&self.timer_seqs)
            .bind(&self.actors)
            .bind(&self.traceparents)
    }
}

/// All or nothing: no row is written unless every execution exists and is active. Ended executions
/// take the careful path, which keeps retention from removing them meanwhile.
const ACCEPT: &str = "
WITH wanted AS MATERIALIZED (
    SELECT k.*, x.phase
    FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
        WITH ORDINALITY AS k(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, ord)
    LEFT JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
)
INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                    status, created_at)
SELECT w.tenant, w.event_id, w.execution_id, nextval('accept_no'), w.name, w.payload, w.timer_seq, w.actor,
       w.traceparent, 'pending', $9
FROM (SELECT * FROM wanted
      WHERE NOT EXISTS (SELECT FROM wanted WHERE phase IS DISTINCT FROM 'active')
      ORDER BY ord) w
ON CONFLICT (tenant, event_id) DO NOTHING
RETURNING tenant, event_id, accept_no";

/// Accept events of active executions. Ids that exist already are not among those returned; when an
/// execution is missing or has ended, nothing is written.
pub(crate) fn accept<'q>(columns: &'q EventColumns<'_>, now: Timestamp) -> PgQuery<'q> {
    columns.bound(ACCEPT).bind(now.as_millis())
}

/// What [`accept`] returned.
pub(crate) fn accepted(rows: &[sqlx::postgres::PgRow]) -> Attempt<HashMap<(TenantId, EventId), AcceptNo>> {
    rows.iter()
        .map(|row| Ok(((decode::parsed(row, "tenant")?, decode::event_id(row)?), decode::accept_no(row)?)))
        .collect()
}

/// Events of executions that are known to exist (their rows are locked, or they have open actions).
pub(crate) async fn emit(
    connection: &mut PgConnection,
    events: &EventColumns<'_>,
    now: Timestamp,
) -> Attempt<Vec<AcceptNo>> {
    const EMIT: &str = "
INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                    status, created_at)
SELECT k.tenant, k.event_id, k.execution_id, nextval('accept_no'), k.name, k.payload, k.timer_seq, k.actor,
       k.traceparent, 'pending', $9
FROM (SELECT * FROM
        unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
        WITH ORDINALITY AS u(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, ord)
      ORDER BY ord) k
RETURNING accept_no";
    let rows = events.bound(EMIT).bind(now.as_millis()).fetch_all(connection).await?;
    let mut numbers = rows.iter().map(decode::accept_no).collect::<Attempt<Vec<_>>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// The next `count` acceptance numbers, growing.
pub(crate) async fn take_numbers(connection: &mut PgConnection, count: usize) -> Attempt<Vec<AcceptNo>> {
    const TAKE: &str = "SELECT nextval('accept_no') FROM generate_series(1, $1)";
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut numbers: Vec<i64> = sqlx::query_scalar(TAKE).bind(count).fetch_all(connection).await?;
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(AcceptNo).collect())
}

/// What a start did before it was accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered<'a> {
    pub state: &'a str,
    pub at: Timestamp,
}

/// An event with its number; a start is applied already.
#[derive(Debug)]
pub(crate) struct NumberedEvent<'a> {
    pub event: &'a NewEvent,
    pub accept_no: AcceptNo,
    /// The state that a start entered at seq 1, and when.
    pub entered: Option<Entered<'a>>,
}

/// Returns how many were new.
pub(crate) async fn insert_numbered(
    connection: &mut PgConnection,
    events: &[NumberedEvent<'_>],
    now: Timestamp,
) -> Attempt<usize> {
    const INSERT: &str = "
INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                    status, to_state, seq, created_at, started_at, completed_at)
SELECT k.tenant, k.event_id, k.execution_id, k.accept_no, k.name, k.payload, k.timer_seq, k.actor, k.traceparent,
       CASE WHEN k.entered IS NULL THEN 'pending' ELSE 'completed' END, k.entered,
       CASE WHEN k.entered IS NOT NULL THEN 1 END, coalesce(k.at, $9), k.at, k.at
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
            $10::bigint[], $11::text[], $12::bigint[])
    AS k(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, accept_no, entered, at)
ORDER BY k.tenant, k.event_id
ON CONFLICT (tenant, event_id) DO NOTHING";
    let columns: EventColumns<'_> = events.iter().map(|numbered| numbered.event).collect();
    let numbers: Vec<i64> = events.iter().map(|numbered| numbered.accept_no.0).collect();
    let entered = || events.iter().map(|numbered| numbered.entered);
    let states: Vec<Option<&str>> = entered().map(|entered| Some(entered?.state)).collect();
    let times: Vec<Option<i64>> = entered().map(|entered| Some(entered?.at.as_millis())).collect();
    let query = columns.bound(INSERT).bind(now.as_millis()).bind(&numbers).bind(&states).bind(&times);
    let done = query.execute(connection).await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// The status of those events that exist.
pub(crate) async fn read_statuses<'e>(
    executor: impl PgExecutor<'e>,
    events: &[(TenantId, EventId)],
) -> Attempt<HashMap<(TenantId, EventId), EventStatus>> {
    const STATUSES: &str = "
SELECT e.tenant, e.event_id, e.status
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
JOIN events e ON e.tenant = k.tenant AND e.event_id = k.event_id";
    let tenants: Vec<&str> = events.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let ids: Vec<Uuid> = events.iter().map(|(_, event)| event.0).collect();
    let rows = sqlx::query(STATUSES).bind(&tenants).bind(&ids).fetch_all(executor).await?;
    rows.iter()
        .map(|row| {
            let event = EventId(row.try_get("event_id")?);
            Ok(((decode::parsed(row, "tenant")?, event), decode::parsed(row, "status")?))
        })
        .collect()
}
