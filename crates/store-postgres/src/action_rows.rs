//! Rows of actions: inserted by a commit, leased, and what a leased one is handed out with.

use std::collections::{BTreeMap, HashMap};

use millstream_core::id::{ActionKey, Epoch, Name, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::status::ActionStatus;
use millstream_core::time::Timestamp;
use millstream_store::action_store::{Handling, Lease, LeasedAction};
use millstream_store::execution_store::{LeaseGrant, NewAction};
use sqlx::postgres::{PgArguments, PgExecutor, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::decode::{self, undecodable};
use crate::errors::Attempt;

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

pub(crate) fn millis(length: std::time::Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 4)
}

/// The column of the same name.
pub(crate) const fn handled(handling: Handling) -> bool {
    match handling {
        Handling::Handled => true,
        Handling::Unhandled => false,
    }
}

/// A new action, and whether the committing worker takes it along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedRow<'a> {
    pub action: &'a NewAction,
    pub taken: Taken,
    pub company: Company,
}

/// Whether a transition called for other actions as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    None,
    Others,
}

/// Finds out who has company among the actions of one commit; those of a transition stand together.
pub(crate) fn see_company(rows: &mut [PlannedRow<'_>]) {
    let seq = |row: &PlannedRow<'_>| row.action.key.seq;
    for group in rows.chunk_by_mut(|one, next| seq(one) == seq(next)) {
        if group.len() > 1 {
            group.iter_mut().for_each(|row| row.company = Company::Others);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
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
}

impl<'a> NewActionColumns<'a> {
    pub(crate) fn of(rows: &[PlannedRow<'a>]) -> Self {
        let texts = |text: fn(&NewAction) -> Option<&RawJson>| -> Vec<Option<&'a str>> {
            rows.iter().map(|row| text(row.action).map(RawJson::as_str)).collect()
        };
        let status = |row: &PlannedRow<'_>| match row.taken {
            Taken::ByCommitter => ActionStatus::Leased.as_str(),
            Taken::No => row.action.status.as_str(),
        };
        Self {
            keys: rows.iter().map(|row| &row.action.key).collect(),
            event_ids: rows.iter().map(|row| row.action.event_id.0).collect(),
            ordinals: rows.iter().map(|row| row.action.ordinal).collect(),
            alone: rows.iter().map(|row| row.company == Company::None).collect(),
            needs: rows.iter().map(|row| RawJson::of(&row.action.needs)).collect(),
            statuses: rows.iter().map(status).collect(),
            inputs: texts(|action| action.input.as_ref()),
            scopes: texts(|action| action.scope.as_ref()),
            results: texts(|action| action.result.as_ref()),
            errors: texts(|action| action.error.as_ref()),
            handled: rows.iter().map(|row| handled(row.action.handling)).collect(),
        }
    }

    /// As `$1` to `$14`, with the worker as `$15`, the length of a lease as `$16` and `now` as `$17`.
    pub(crate) fn bound<'q>(
        &'q self,
        sql: &'static str,
        worker: &'q WorkerId,
        grant: LeaseGrant,
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
            .bind(worker.as_str())
            .bind(millis(grant.ttl))
            .bind(now.as_millis())
    }
}

/// Inserts the columns of [`NewActionColumns`]; the database's time is `clock.now`.
macro_rules! insert_new_actions {
    () => {
        "
    INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts,
                         epoch, worker_id, due_at, input, scope, result, error, handled, created_at, settled_at)
    SELECT k.tenant, k.execution_id, k.seq, k.action, k.event_id, k.ordinal, k.alone, k.needs, k.status,
           CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END, CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
           CASE WHEN k.status = 'leased' THEN $15 END,
           CASE k.status WHEN 'leased' THEN clock.now + $16 WHEN 'ready' THEN clock.now END,
           k.input, k.scope, k.result, k.error, k.handled, $17::bigint,
           CASE WHEN k.status IN ('succeeded', 'failed', 'skipped', 'cancelled') THEN $17 END
    FROM clock, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::uuid[], $6::integer[],
                       $7::boolean[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
                       $13::text[], $14::boolean[])
        AS k(tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, input, scope, result,
             error, handled)"
    };
}
pub(crate) use insert_new_actions;

/// Returns the end of the leases granted here.
pub(crate) async fn insert_actions(
    connection: &mut PgConnection,
    rows: &[PlannedRow<'_>],
    worker: &WorkerId,
    grant: LeaseGrant,
    now: Timestamp,
) -> Attempt<Timestamp> {
    const INSERT: &str = concat!(
        "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), inserted AS (",
        insert_new_actions!(),
        "
)
SELECT clock.now + $16 FROM clock"
    );
    let columns = NewActionColumns::of(rows);
    let row = columns.bound(INSERT, worker, grant, now).fetch_one(connection).await?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}

/// Results of actions by their keys, as far as there are any.
pub(crate) async fn read_results<'e>(
    executor: impl PgExecutor<'e>,
    keys: &[ActionKey],
) -> Attempt<HashMap<ActionKey, RawJson>> {
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

/// The keys of what an action needs.
pub(crate) fn needed<'a>(key: &'a ActionKey, needs: &'a [Name]) -> impl Iterator<Item = ActionKey> + 'a {
    needs.iter().map(|need| ActionKey { action: need.clone(), ..key.clone() })
}

pub(crate) fn results_of(
    key: &ActionKey,
    needs: &[Name],
    found: &HashMap<ActionKey, RawJson>,
) -> BTreeMap<Name, RawJson> {
    needed(key, needs).filter_map(|key| Some((key.action.clone(), found.get(&key)?.clone()))).collect()
}

pub(crate) fn needs(row: &PgRow) -> Attempt<Vec<Name>> {
    let text: &str = row.try_get("needs")?;
    serde_json::from_str(text).map_err(|error| undecodable("needs", text, error))
}

/// A leased row (with `definition`, `version` and `traceparent` joined), still without results.
pub(crate) fn leased(row: &PgRow) -> Attempt<LeasedAction> {
    Ok(LeasedAction {
        lease: Lease { key: decode::action_key(row)?, epoch: Epoch(row.try_get("epoch")?) },
        event_id: decode::event_id(row)?,
        definition: decode::definition_ref(row)?,
        attempt: row.try_get("attempts")?,
        input: decode::json_option(row, "input")?,
        scope: decode::json_option(row, "scope")?,
        results: BTreeMap::new(),
        traceparent: row.try_get("traceparent")?,
        lease_until: decode::time(row, "due_at")?,
    })
}
