//! Rows of actions: leased, and read with everything that performing them needs. Insertion is in
//! [`crate::new_actions`].

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use millstream_model::id::{ActionKey, DefinitionRef, Epoch, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{FailureHandling, Lease, LeaseOrigin, LeasedAction};
use millstream_workflow::lease_policy::LeasePolicy;
use sqlx::postgres::{PgArguments, PgExecutor, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

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
