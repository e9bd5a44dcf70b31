//! New actions of a commit: their rows, and which of them the committing worker leases.

use std::time::Duration;

use millstream_model::id::{Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::ActionRelation::Together;
use millstream_store::execution_store::{LeaseGrant, NewAction};
use millstream_store::status_text;
use millstream_workflow::lease_policy::LeasePolicy;
use sqlx::{PgConnection, Row};

use crate::action_rows::{handling_column, millis};
use crate::errors::PostgresResult;
use crate::statement_inputs::{InputTable, NamedStatement, StatementInputs};

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

/// A planned row with its documents as text.
#[derive(Debug)]
pub(crate) struct RenderedAction<'a> {
    planned: PlannedRow<'a>,
    needs: RawJson,
}

impl<'a> RenderedAction<'a> {
    pub(crate) fn of_all(rows: &[PlannedRow<'a>]) -> Vec<Self> {
        let row = |planned: &PlannedRow<'a>| Self {
            planned: *planned,
            needs: RawJson::from_value(&planned.action.needs),
        };
        rows.iter().map(row).collect()
    }

    const fn status(&self) -> &'static str {
        match self.planned.taken {
            CommitLease::ByCommitter => ActionStatus::Leased.as_str(),
            CommitLease::No => self.planned.action.status.as_str(),
        }
    }
}

fn new_action_table<'q, 'a>(rows: &'q [RenderedAction<'a>]) -> InputTable<'q, RenderedAction<'a>> {
    let action = |row: &'q RenderedAction<'a>| row.planned.action;
    let length = |row: &'q RenderedAction<'a>, length: fn(&LeasePolicy) -> Option<Duration>| {
        length(&row.planned.action.terms).map(millis)
    };
    InputTable::of(rows)
        .execution_key(|row| &row.planned.action.key.execution)
        .number("seq", move |row| action(row).key.seq.0)
        .text("action", move |row| action(row).key.action.as_str())
        .end_of_key()
        .id("event_id", move |row| action(row).event_id.0)
        .integer("ordinal", move |row| action(row).ordinal)
        .flag("alone", |row| row.planned.company == RowRelation::None)
        .text("needs", |row| row.needs.as_str())
        .text("status", |row| row.status())
        .text("input", move |row| action(row).input.as_ref().map(RawJson::as_str))
        .text("scope", move |row| action(row).scope.as_ref().map(RawJson::as_str))
        .text("result", move |row| action(row).result.as_ref().map(RawJson::as_str))
        .text("error", move |row| action(row).error.as_ref().map(RawJson::as_str))
        .flag("handled", move |row| handling_column(action(row).handling))
        .text("queue", move |row| action(row).terms.queue.as_str())
        .number("heartbeat_ms", move |row| length(row, |terms| terms.heartbeat))
        .number("attempt_ms", move |row| length(row, |terms| terms.attempt))
        .number("start_ms", move |row| length(row, |terms| terms.start))
        .number("close_ms", move |row| length(row, |terms| terms.close))
        .text("undoes", move |row| action(row).undoes.as_ref().map(Name::as_str))
}

/// The inputs of [`insert_new_actions`]: the actions, the worker that leases some of them, the length of a
/// lease, and `now`.
pub(crate) fn new_action_inputs<'q>(
    rows: &'q [RenderedAction<'_>],
    worker: &'q WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> StatementInputs<'q> {
    StatementInputs::default()
        .table("actions", new_action_table(rows))
        .text("worker", worker.as_str())
        .number("ttl", millis(grant.ttl))
        .number("now", now.as_millis())
}

/// Inserts the rows of [`new_action_inputs`]; the database's time is `clock.now`. Only actions that the
/// committer leases have begun.
macro_rules! insert_new_actions {
    () => {
        concat!(
            "
    INSERT INTO actions ({actions.columns}, attempts, epoch, worker_id, due_at, created_at, settled_at, ready_at,
                         expires_at, attempt_until)
    SELECT k.*,
           CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END, CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
           CASE WHEN k.status = 'leased' THEN {worker} END,
           CASE k.status WHEN 'leased' THEN clock.now + ",
            crate::action_rows::lease_length!("k", "{ttl}"),
            " WHEN 'ready' THEN clock.now END,
           {now}::bigint,
           CASE WHEN k.status IN ({SETTLED_ACTIONS}) THEN {now} END,
           CASE WHEN k.status IN ({SCHEDULED_ACTIONS}) THEN clock.now END,
           CASE WHEN k.status = 'ready' THEN clock.now + least(k.start_ms, k.close_ms) END,
           CASE WHEN k.status = 'leased' THEN clock.now + k.attempt_ms END
    FROM clock, {actions}"
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
    static INSERT: NamedStatement = NamedStatement::new(status_text!(concat!(
        "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), inserted AS (",
        insert_new_actions!(),
        "
)
SELECT clock.now FROM clock"
    )));
    let rows = RenderedAction::of_all(rows);
    let row = INSERT.bind(new_action_inputs(&rows, worker, grant, now)).fetch_one(connection).await?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}
