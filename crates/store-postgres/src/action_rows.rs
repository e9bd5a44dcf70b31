//! Rows of actions: inserted by a commit, leased, and read with everything that performing them needs.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use millstream_model::id::{ActionKey, DefinitionRef, Epoch, Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{FailureHandling, Lease, LeaseOrigin, LeasedAction};
use millstream_store::execution_store::ActionRelation::Together;
use millstream_store::execution_store::{LeaseGrant, NewAction};
use millstream_workflow::lease_policy::LeasePolicy;
use sqlx::postgres::{PgArguments, PgExecutor, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::decode;
use crate::errors::PostgresResult;

/// Actions as four arrays.
#[derive(Debug, Default)]
pub(crate) struct ActionColumns<'a> {
    tenants: Vec<&'a str>,
    executions: Vec<&'a str>,
    seqs: Vec<i64>,
    actions: Vec<&'a str>,
}

impl<'a> FromIterator<&'a ActionKey> for ActionColumns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a ActionKey>>(keys: I) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.tenants.push(key.execution.tenant.as_str());
            columns.executions.push(key.execution.execution.as_str());
            columns.seqs.push(key.seq.0);
            columns.actions.push(key.action.as_str());
        }
        columns
    }
}

impl ActionColumns<'_> {
    /// As `$1` to `$4`.
    pub(crate) fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(&self.tenants).bind(&self.executions).bind(&self.seqs).bind(&self.actions)
    }
}

pub(crate) fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 4)
}

/// When a lease with this policy ends that is granted at `now`. [`lease_length`] is the same in SQL.
pub(crate) fn lease_until(terms: &LeasePolicy, ttl: Duration, now: Timestamp) -> Timestamp {
    let length = terms.heartbeat.or(terms.attempt).unwrap_or(ttl);
    now.plus(terms.attempt.map_or(length, |attempt| length.min(attempt)))
}

/// How long a lease of an action lasts; the argument is the time that its taker asks for.
macro_rules! lease_length {
    ($action:literal, $ttl:literal) => {
        concat!(
            "least(coalesce(",
            $action,
            ".heartbeat_ms, ",
            $action,
            ".attempt_ms, ",
            $ttl,
            "), ",
            $action,
            ".attempt_ms)"
        )
    };
}
pub(crate) use lease_length;

/// Whether an execution was ended by request, or was a graph that has ended: the outcomes of its actions are
/// not wanted any more.
macro_rules! unwanted {
    ($execution:literal) => {
        concat!(
            "(",
            $execution,
            ".phase = 'cancelled' OR ",
            $execution,
            ".phase <> 'active' AND ",
            $execution,
            ".definition = 'millstream.graph' OR ",
            $execution,
            ".phase = 'failed' AND EXISTS (
        SELECT FROM transitions t
        WHERE t.execution_id = ",
            $execution,
            ".execution_id AND t.tenant = ",
            $execution,
            ".tenant AND t.seq = ",
            $execution,
            ".seq
          AND t.name = 'millstream.fail'))"
        )
    };
}
pub(crate) use unwanted;

/// The column of the same name.
pub(crate) const fn handling_column(handling: FailureHandling) -> bool {
    match handling {
        FailureHandling::Handled => true,
        FailureHandling::Unhandled => false,
    }
}

/// A new action, and whether the committing worker leases it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedRow<'a> {
    pub action: &'a NewAction,
    pub taken: CommitLease,
    pub company: RowRelation,
}

/// Whether the transition has other actions that are related to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowRelation {
    None,
    Others,
}

/// Marks the actions of one commit that have relations; those of a transition are adjacent.
pub(crate) fn mark_relations(rows: &mut [PlannedRow<'_>]) {
    let seq = |row: &PlannedRow<'_>| row.action.key.seq;
    for group in rows.chunk_by_mut(|one, next| seq(one) == seq(next)) {
        if group.len() > 1 {
            let together = |row: &&mut PlannedRow<'_>| row.action.company == Together;
            group.iter_mut().filter(together).for_each(|row| row.company = RowRelation::Others);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitLease {
    ByCommitter,
    No,
}

/// The columns of new actions, one array each.
#[derive(Debug)]
pub(crate) struct NewActionColumns<'a> {
    keys: ActionColumns<'a>,
    event_ids: Vec<Uuid>,
    ordinals: Vec<i32>,
    alone: Vec<bool>,
    needs: Vec<RawJson>,
    statuses: Vec<&'static str>,
    inputs: Vec<Option<&'a str>>,
    scopes: Vec<Option<&'a str>>,
    results: Vec<Option<&'a str>>,
    errors: Vec<Option<&'a str>>,
    handled: Vec<bool>,
    queues: Vec<&'a str>,
    heartbeats: Vec<Option<i64>>,
    attempts: Vec<Option<i64>>,
    starts: Vec<Option<i64>>,
    closes: Vec<Option<i64>>,
    undoes: Vec<Option<&'a str>>,
}

impl<'a> NewActionColumns<'a> {
    pub(crate) fn of(rows: &[PlannedRow<'a>]) -> Self {
        let texts = |text: fn(&NewAction) -> Option<&RawJson>| -> Vec<Option<&'a str>> {
            rows.iter().map(|row| text(row.action).map(RawJson::as_str)).collect()
        };
        let lengths = |length: fn(&LeasePolicy) -> Option<Duration>| -> Vec<Option<i64>> {
            rows.iter().map(|row| length(&row.action.terms).map(millis)).collect()
        };
        let status = |row: &PlannedRow<'_>| match row.taken {
            CommitLease::ByCommitter => ActionStatus::Leased.as_str(),
            CommitLease::No => row.action.status.as_str(),
        };
        Self {
            keys: rows.iter().map(|row| &row.action.key).collect(),
            event_ids: rows.iter().map(|row| row.action.event_id.0).collect(),
            ordinals: rows.iter().map(|row| row.action.ordinal).collect(),
            alone: rows.iter().map(|row| row.company == RowRelation::None).collect(),
            needs: rows.iter().map(|row| RawJson::from_value(&row.action.needs)).collect(),
            statuses: rows.iter().map(status).collect(),
            inputs: texts(|action| action.input.as_ref()),
            scopes: texts(|action| action.scope.as_ref()),
            results: texts(|action| action.result.as_ref()),
            errors: texts(|action| action.error.as_ref()),
            handled: rows.iter().map(|row| handling_column(row.action.handling)).collect(),
            queues: rows.iter().map(|row| row.action.terms.queue.as_str()).collect(),
            heartbeats: lengths(|terms| terms.heartbeat),
            attempts: lengths(|terms| terms.attempt),
            starts: lengths(|terms| terms.start),
            closes: lengths(|terms| terms.close),
            undoes: rows.iter().map(|row| row.action.undoes.as_ref().map(Name::as_str)).collect(),
        }
    }

    /// As `$1` to `$20`, with the worker as `$21`, the length of a lease as `$22` and `now` as `$23`.
    pub(crate) fn bound<'q>(
        &'q self,
        sql: &'static str,
        worker: &'q WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Query<'q, Postgres, PgArguments> {
        self.keys
            .bound(sql)
            .bind(&self.event_ids)
            .bind(&self.ordinals)
            .bind(&self.alone)
            .bind(self.needs.iter().map(RawJson::as_str).collect::<Vec<_>>())
            .bind(&self.statuses)
            .bind(&self.inputs)
            .bind(&self.scopes)
            .bind(&self.results)
            .bind(&self.errors)
            .bind(&self.handled)
            .bind(&self.queues)
            .bind(&self.heartbeats)
            .bind(&self.attempts)
            .bind(&self.starts)
            .bind(&self.closes)
            .bind(&self.undoes)
            .bind(worker.as_str())
            .bind(millis(grant.ttl))
            .bind(now.as_millis())
    }
}

/// Inserts the columns of [`NewActionColumns`]; the database's time is `clock.now`. Only actions that the
/// committer leases have begun.
macro_rules! insert_new_actions {
    () => {
        concat!(
            "
    INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts,
                         epoch, worker_id, due_at, input, scope, result, error, handled, created_at, settled_at,
                         queue, heartbeat_ms, attempt_ms, start_ms, close_ms, ready_at, expires_at, attempt_until,
                         undoes)
    SELECT k.tenant, k.execution_id, k.seq, k.action, k.event_id, k.ordinal, k.alone, k.needs, k.status,
           CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END, CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
           CASE WHEN k.status = 'leased' THEN $21 END,
           CASE k.status WHEN 'leased' THEN clock.now + ",
            crate::action_rows::lease_length!("k", "$22"),
            " WHEN 'ready' THEN clock.now END,
           k.input, k.scope, k.result, k.error, k.handled, $23::bigint,
           CASE WHEN k.status IN ('standby', 'succeeded', 'failed', 'skipped', 'cancelled') THEN $23 END,
           k.queue, k.heartbeat_ms, k.attempt_ms, k.start_ms, k.close_ms,
           CASE WHEN k.status IN ('ready', 'leased') THEN clock.now END,
           CASE WHEN k.status = 'ready' THEN clock.now + least(k.start_ms, k.close_ms) END,
           CASE WHEN k.status = 'leased' THEN clock.now + k.attempt_ms END,
           k.undoes
    FROM clock, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::uuid[], $6::integer[],
                       $7::boolean[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
                       $13::text[], $14::boolean[], $15::text[], $16::bigint[], $17::bigint[], $18::bigint[],
                       $19::bigint[], $20::text[])
        AS k(tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, input, scope, result,
             error, handled, queue, heartbeat_ms, attempt_ms, start_ms, close_ms, undoes)"
        )
    };
}
pub(crate) use insert_new_actions;

/// Returns the database's time at which they became ready, or were leased.
pub(crate) async fn insert_actions(
    connection: &mut PgConnection,
    rows: &[PlannedRow<'_>],
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<Timestamp> {
    const INSERT: &str = concat!(
        "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), inserted AS (",
        insert_new_actions!(),
        "
)
SELECT clock.now FROM clock"
    );
    let columns = NewActionColumns::of(rows);
    let row = columns.bound(INSERT, worker, grant, now).fetch_one(connection).await?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}

/// Stored results of actions by their keys.
async fn read_results<'e>(
    executor: impl PgExecutor<'e>,
    keys: &[ActionKey],
) -> PostgresResult<HashMap<ActionKey, RawJson>> {
    const READ: &str = "
SELECT a.tenant, a.execution_id, a.seq, a.action, a.result
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS k(tenant, execution_id, seq, action)
JOIN actions a ON a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq
              AND a.action = k.action
WHERE a.result IS NOT NULL";
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let columns: ActionColumns<'_> = keys.iter().collect();
    let rows = columns.bound(READ).fetch_all(executor).await?;
    rows.iter().map(|row| Ok((decode::action_key(row)?, decode::json(row, "result")?))).collect()
}

/// The keys of an action's dependencies.
fn dependency_keys<'a>(key: &'a ActionKey, needs: &'a [Name]) -> impl Iterator<Item = ActionKey> + 'a {
    needs.iter().map(|need| ActionKey { action: need.clone(), ..key.clone() })
}

fn results_of(
    key: &ActionKey,
    needs: &[Name],
    found: &HashMap<ActionKey, RawJson>,
) -> BTreeMap<Name, RawJson> {
    dependency_keys(key, needs)
        .filter_map(|key| Some((key.action.clone(), found.get(&key)?.clone())))
        .collect()
}

pub(crate) fn decode_needs(row: &PgRow) -> PostgresResult<Vec<Name>> {
    decode::list(row, "needs")
}

/// A leased row, still without results.
pub(crate) fn decode_leased(
    row: &PgRow,
    definition: DefinitionRef,
    traceparent: Option<String>,
) -> PostgresResult<LeasedAction> {
    let closing: bool = row.try_get("closing")?;
    Ok(LeasedAction {
        lease: Lease { key: decode::action_key(row)?, epoch: Epoch(row.try_get("epoch")?) },
        event_id: decode::event_id(row)?,
        definition,
        attempt: row.try_get("attempts")?,
        input: decode::json_option(row, "input")?,
        scope: decode::json_option(row, "scope")?,
        results: BTreeMap::new(),
        traceparent,
        lease_until: decode::time(row, "due_at")?,
        revision: row.try_get("revision")?,
        heartbeat: row
            .try_get::<Option<i64>, _>("heartbeat_ms")?
            .map(|millis| Duration::from_millis(millis.unsigned_abs())),
        progress: decode::json_option(row, "progress")?,
        ready_at: match decode::time_option(row, "ready_at")? {
            Some(ready_at) => ready_at,
            None => decode::time(row, "created_at")?,
        },
        closing: if closing { decode::json_option(row, "error")? } else { None },
        begun: if row.try_get("awaited")? { LeaseOrigin::Awaited } else { LeaseOrigin::No },
    })
}

/// Actions with the results of their dependencies. Results of settled actions do not change while a dependent
/// is open: they may be read after the lease.
pub(crate) async fn with_results<'e>(
    executor: impl PgExecutor<'e>,
    leased: Vec<(LeasedAction, Vec<Name>)>,
) -> PostgresResult<Vec<LeasedAction>> {
    let needed: Vec<ActionKey> =
        leased.iter().flat_map(|(action, needs)| dependency_keys(&action.lease.key, needs)).collect();
    let results = read_results(executor, &needed).await?;
    let complete = |(mut action, needs): (LeasedAction, Vec<Name>)| {
        action.results = results_of(&action.lease.key, &needs, &results);
        action
    };
    Ok(leased.into_iter().map(complete).collect())
}
