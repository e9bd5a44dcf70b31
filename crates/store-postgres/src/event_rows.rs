//! Inserting event rows: as accepted by the ingress, as emitted by a commit, with numbers taken before.
//!
//! Acceptance numbers come from one sequence. Where a statement draws them itself, it draws them over a
//! sorted subquery: the numbers follow the order of the batch.

use std::collections::HashMap;

use millstream_model::id::{AcceptNo, EventId, TenantId};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::event_log::EventSubmission;
use millstream_workflow::log::EventOrigin;
use sqlx::PgConnection;
use sqlx::postgres::{PgArguments, PgExecutor, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::PostgresResult;

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

impl<'a> FromIterator<&'a EventSubmission> for EventColumns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a EventSubmission>>(events: I) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.tenants.push(event.execution.tenant.as_str());
            columns.event_ids.push(event.event_id.0);
            columns.executions.push(event.execution.execution.as_str());
            columns.names.push(event.name.as_str());
            columns.payloads.push(event.payload.as_str());
            columns.timer_seqs.push(match event.origin {
                EventOrigin::Posted => None,
                EventOrigin::Timer { armed_seq } => Some(armed_seq.0),
            });
            columns.actors.push(event.actor.as_deref());
            columns.traceparents.push(event.traceparent.as_deref());
        }
        columns
    }
}

type PostgresEventQuery<'q> = Query<'q, Postgres, PgArguments>;

impl EventColumns<'_> {
    fn bound<'q>(&'q self, sql: &'static str) -> PostgresEventQuery<'q> {
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

/// All or nothing: no row is written unless every execution exists and is active. Ended executions take the
/// careful path, which keeps retention from removing them meanwhile. No `ON CONFLICT`: it adds a cost to
/// every row for the sake of existing ids, which are as rare as calls whose outcome was in doubt.
const ACCEPT: &str = "
WITH wanted AS MATERIALIZED (
    SELECT k.*, x.phase
    FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
        WITH ORDINALITY AS k(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, ord)
    LEFT JOIN LATERAL (
        SELECT x.phase FROM executions x WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id OFFSET 0
    ) x ON TRUE
), accepted AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                        created_at)
    SELECT w.tenant, w.event_id, w.execution_id, nextval('accept_no'), w.name, w.payload, w.timer_seq, w.actor,
           w.traceparent, $9
    FROM (SELECT * FROM wanted
          WHERE NOT EXISTS (SELECT FROM wanted WHERE phase IS DISTINCT FROM 'active')
          ORDER BY ord) w
    RETURNING tenant, execution_id, accept_no, event_id, octet_length(payload) AS bytes, name
), posted AS (
    INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
    SELECT a.tenant, a.execution_id, a.accept_no, a.event_id, a.bytes,
           a.name IN ('millstream.cancel', 'millstream.fail'), $9
    FROM accepted a
    RETURNING accept_no
)
SELECT coalesce(array_agg(accept_no ORDER BY accept_no), '{}') FROM posted";

/// Accept events of active executions: one number each, in their order. No numbers, and nothing written,
/// when an execution is missing or has ended. An id that exists is an error.
pub(crate) async fn accept(
    warm: &WarmConnections,
    columns: &EventColumns<'_>,
    now: Timestamp,
) -> PostgresResult<Vec<AcceptNo>> {
    decode_numbers(warm.fetch_row(columns.bound(ACCEPT).bind(now.as_millis())).await?)
}

/// The same as a part of a transaction.
pub(crate) async fn accept_within(
    connection: &mut PgConnection,
    columns: &EventColumns<'_>,
    now: Timestamp,
) -> PostgresResult<Vec<AcceptNo>> {
    decode_numbers(columns.bound(ACCEPT).bind(now.as_millis()).fetch_one(connection).await?)
}

/// Numbers were drawn in the order of the batch, so their own order is the batch's.
fn decode_numbers(row: PgRow) -> PostgresResult<Vec<AcceptNo>> {
    Ok(row.try_get::<Vec<i64>, _>(0)?.into_iter().map(AcceptNo).collect())
}

/// Events of executions that exist (their rows are locked, or they have open actions).
pub(crate) async fn emit(
    connection: &mut PgConnection,
    events: &EventColumns<'_>,
    now: Timestamp,
) -> PostgresResult<Vec<AcceptNo>> {
    const EMIT: &str = "
WITH accepted AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                        created_at)
    SELECT k.tenant, k.event_id, k.execution_id, nextval('accept_no'), k.name, k.payload, k.timer_seq, k.actor,
           k.traceparent, $9
    FROM (SELECT * FROM
            unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
            WITH ORDINALITY AS u(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, ord)
          ORDER BY ord) k
    RETURNING tenant, execution_id, accept_no, event_id, octet_length(payload) AS bytes, name
), posted AS (
    INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
    SELECT a.tenant, a.execution_id, a.accept_no, a.event_id, a.bytes,
           a.name IN ('millstream.cancel', 'millstream.fail'), $9
    FROM accepted a
    RETURNING accept_no
)
SELECT coalesce(array_agg(accept_no ORDER BY accept_no), '{}') FROM posted";
    decode_numbers(events.bound(EMIT).bind(now.as_millis()).fetch_one(connection).await?)
}

/// The next `count` acceptance numbers, ascending.
pub(crate) async fn take_numbers(
    connection: &mut PgConnection,
    count: usize,
) -> PostgresResult<Vec<AcceptNo>> {
    const TAKE: &str = "SELECT nextval('accept_no') FROM generate_series(1, $1)";
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut numbers: Vec<i64> = sqlx::query_scalar(TAKE).bind(count).fetch_all(connection).await?;
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(AcceptNo).collect())
}

/// An event with its number. A start is applied already and is not in the mailbox.
#[derive(Debug)]
pub(crate) struct NumberedEvent<'a> {
    pub event: &'a EventSubmission,
    pub accept_no: AcceptNo,
    /// When a start was applied.
    pub started_at: Option<Timestamp>,
}

/// Returns how many were new.
pub(crate) async fn insert_numbered(
    connection: &mut PgConnection,
    events: &[NumberedEvent<'_>],
    now: Timestamp,
) -> PostgresResult<usize> {
    const INSERT: &str = "
WITH accepted AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent,
                        created_at)
    SELECT k.tenant, k.event_id, k.execution_id, k.accept_no, k.name, k.payload, k.timer_seq, k.actor,
           k.traceparent, coalesce(k.at, $9)
    FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
                $10::bigint[], $11::bigint[])
        AS k(tenant, event_id, execution_id, name, payload, timer_seq, actor, traceparent, accept_no, at)
    ORDER BY k.tenant, k.event_id
    ON CONFLICT (tenant, event_id) DO NOTHING
    RETURNING tenant, execution_id, accept_no, event_id, octet_length(payload) AS bytes, name
), posted AS (
    INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
    SELECT a.tenant, a.execution_id, a.accept_no, a.event_id, a.bytes,
           a.name IN ('millstream.cancel', 'millstream.fail'), $9
    FROM accepted a
    WHERE a.name <> 'millstream.start'
)
SELECT count(*) FROM accepted";
    if events.is_empty() {
        return Ok(0);
    }
    let columns: EventColumns<'_> = events.iter().map(|numbered| numbered.event).collect();
    let numbers: Vec<i64> = events.iter().map(|numbered| numbered.accept_no.0).collect();
    let times: Vec<Option<i64>> =
        events.iter().map(|numbered| numbered.started_at.map(Timestamp::as_millis)).collect();
    let query = columns.bound(INSERT).bind(now.as_millis()).bind(&numbers).bind(&times);
    let new: i64 = query.fetch_one(connection).await?.try_get(0)?;
    Ok(usize::try_from(new).unwrap_or(usize::MAX))
}

/// The status of those events that exist.
pub(crate) async fn read_statuses<'e>(
    executor: impl PgExecutor<'e>,
    events: &[(TenantId, EventId)],
) -> PostgresResult<HashMap<(TenantId, EventId), EventStatus>> {
    const STATUSES: &str = "
SELECT e.*
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
CROSS JOIN LATERAL (
    SELECT e.tenant, e.event_id, e.status
    FROM event_records e WHERE e.tenant = k.tenant AND e.event_id = k.event_id OFFSET 0) e";
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
