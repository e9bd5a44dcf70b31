//! The actions of whole transitions: locked together, changed together.
//!
//! Recording outcomes or reopening actions works under the lock of the transition's event: lock all its
//! actions in the order of their keys, ask [`settling`](millstream_store::settling) and
//! [`reopening`](millstream_store::reopening) for the consequences, and write every change in one statement.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, Epoch, EventId, ExecutionKey, Name, Seq, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{FailureHandling, OutcomeDemand};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::settling::{SettleConsequences, TransitionActions, TransitionMember};
use millstream_store::status_text;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::action_rows::{self, ActionColumns, lease_length, millis};
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

/// One transition.
pub(crate) type GroupKey = (ExecutionKey, Seq);

/// Its actions.
#[derive(Debug, Clone)]
pub(crate) struct ActionGroup {
    pub event_id: EventId,
    pub graph: TransitionActions,
    pub queues: BTreeMap<Name, ActionQueue>,
    pub handling: BTreeMap<Name, FailureHandling>,
}

/// The statement as it is, unless a test removes its lock.
pub(crate) fn apply_lock_clause(statement: &'static str, lock: &str) -> &'static str {
    if mutation::is_active(Mutation::SettleWithoutLock) {
        return statement.strip_suffix(lock).unwrap_or(statement);
    }
    statement
}

/// All actions of these transitions. A cancellation of the execution is not known here.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    groups: &BTreeSet<(&ExecutionKey, Seq)>,
) -> PostgresResult<BTreeMap<GroupKey, ActionGroup>> {
    Ok(lock_with(connection, groups, &BTreeSet::new()).await?.together)
}

/// The actions that outcomes concern.
#[derive(Debug, Default)]
pub(crate) struct LockedGroups {
    pub together: BTreeMap<GroupKey, ActionGroup>,
    /// Actions without relations, each alone.
    pub alone: BTreeMap<ActionKey, ActionGroup>,
}

impl LockedGroups {
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = (&ExecutionKey, &mut ActionGroup)> {
        let together = self.together.iter_mut().map(|((execution, _), group)| (execution, group));
        together.chain(self.alone.iter_mut().map(|(key, group)| (&key.execution, group)))
    }

    pub(crate) fn group_of(&mut self, key: &ActionKey) -> Option<&mut ActionGroup> {
        match self.alone.get_mut(key) {
            Some(group) => Some(group),
            None => self.together.get_mut(&(key.execution.clone(), key.seq)),
        }
    }
}

/// The same, plus single actions that are alone, all in one order.
pub(crate) async fn lock_with(
    connection: &mut PgConnection,
    groups: &BTreeSet<(&ExecutionKey, Seq)>,
    alone: &BTreeSet<&ActionKey>,
) -> PostgresResult<LockedGroups> {
    // A transition is the range of all names.
    const LOCK: &str = "
SELECT a.tenant, a.execution_id, a.seq, a.action, a.event_id, a.ordinal, a.needs, a.status, a.epoch,
       a.settled_at, a.closing, a.undoes, a.queue, a.handled
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[])
    AS k(tenant, execution_id, seq, low, high)
JOIN actions a ON a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq
              AND a.action >= k.low AND a.action <= k.high
ORDER BY a.tenant, a.execution_id, a.seq, a.action
FOR NO KEY UPDATE OF a";
    let mut found = LockedGroups::default();
    if groups.is_empty() && alone.is_empty() {
        return Ok(found);
    }
    // Names are letters, digits and a few signs: all of them lie between these two.
    let ranges: Vec<(&ExecutionKey, Seq, &str, &str)> = groups
        .iter()
        .map(|(execution, seq)| (*execution, *seq, "", "~"))
        .chain(alone.iter().map(|key| (&key.execution, key.seq, key.action.as_str(), key.action.as_str())))
        .collect();
    let keys: KeyColumns<'_> = ranges.iter().map(|(execution, ..)| *execution).collect();
    let rows = keys
        .bound(apply_lock_clause(LOCK, "\nFOR NO KEY UPDATE OF a"))
        .bind(ranges.iter().map(|(_, seq, ..)| seq.0).collect::<Vec<_>>())
        .bind(ranges.iter().map(|(.., low, _)| *low).collect::<Vec<_>>())
        .bind(ranges.iter().map(|(.., high)| *high).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    for row in &rows {
        let key = decode::action_key(row)?;
        if alone.contains(&key) {
            let mut group = ActionGroup::of(decode::event_id(row)?);
            group.add_row(key.action.clone(), row)?;
            found.alone.insert(key.clone(), group);
        }
        if groups.contains(&(&key.execution, key.seq)) {
            let event_id = decode::event_id(row)?;
            let group =
                found.together.entry((key.execution, key.seq)).or_insert_with(|| ActionGroup::of(event_id));
            group.add_row(key.action, row)?;
        }
    }
    Ok(found)
}

/// Which of these have no relations within their transition. That never changes.
pub(crate) async fn read_alone<'a>(
    connection: &mut PgConnection,
    actions: impl IntoIterator<Item = &'a ActionKey>,
) -> PostgresResult<BTreeSet<&'a ActionKey>> {
    const READ: &str = "
SELECT a.tenant, a.execution_id, a.seq, a.action
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS k(tenant, execution_id, seq, action)
CROSS JOIN LATERAL (
    SELECT a.* FROM actions a
    WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
      AND a.alone
    OFFSET 0) a";
    let mut asked: BTreeSet<&ActionKey> = actions.into_iter().collect();
    let columns: ActionColumns<'_> = asked.iter().copied().collect();
    let rows = columns.bound(READ).fetch_all(connection).await?;
    let alone = rows.iter().map(decode::action_key).collect::<PostgresResult<BTreeSet<ActionKey>>>()?;
    asked.retain(|key| alone.contains(*key));
    Ok(asked)
}

impl ActionGroup {
    fn of(event_id: EventId) -> Self {
        Self {
            event_id,
            graph: TransitionActions { members: BTreeMap::new(), wanted: OutcomeDemand::Yes },
            queues: BTreeMap::new(),
            handling: BTreeMap::new(),
        }
    }

    fn add_row(&mut self, action: Name, row: &PgRow) -> PostgresResult<()> {
        self.queues.insert(action.clone(), decode::parsed(row, "queue")?);
        self.handling.insert(action.clone(), decode_handling(row)?);
        self.graph.members.insert(action, decode_member(row)?);
        Ok(())
    }
}

fn decode_member(row: &PgRow) -> PostgresResult<TransitionMember> {
    Ok(TransitionMember {
        ordinal: row.try_get("ordinal")?,
        needs: action_rows::decode_needs(row)?,
        status: decode::parsed(row, "status")?,
        epoch: Epoch(row.try_get("epoch")?),
        settled_at: decode::time_option(row, "settled_at")?,
        closing: row.try_get("closing")?,
        undoes: decode::parsed_option(row, "undoes")?,
    })
}

pub(crate) fn decode_handling(row: &PgRow) -> PostgresResult<FailureHandling> {
    Ok(if row.try_get("handled")? { FailureHandling::Handled } else { FailureHandling::Unhandled })
}

/// The new values of an action's row. A field that is `None` keeps its value.
#[derive(Debug, Clone)]
pub(crate) struct ActionUpdate<'a> {
    pub status: ActionStatus,
    pub result: Option<&'a RawJson>,
    pub error: ColumnChange<&'a RawJson>,
    pub handling: Option<FailureHandling>,
    /// When a ready one may be retried (`None`: at once), or until when an awaited one is awaited.
    pub due_at: Option<Timestamp>,
    pub needs: Option<Vec<Name>>,
    pub closing: Option<bool>,
    pub count: AttemptChange,
    /// Whether its schedule begins now.
    pub begins: bool,
    /// Another input, which is another revision.
    pub input: Option<&'a RawJson>,
}

/// Whether a stored value is kept or cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnChange<T> {
    AsItIs,
    Gone,
    Now(T),
}

/// Change of the attempt counter. A lease counts in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptChange {
    Stays,
    /// The attempt that was under way is not counted.
    OneLess,
    Begins,
}

impl ActionUpdate<'_> {
    pub(crate) const fn to(status: ActionStatus) -> Self {
        Self {
            status,
            result: None,
            error: ColumnChange::AsItIs,
            handling: None,
            due_at: None,
            needs: None,
            closing: None,
            count: AttemptChange::Stays,
            begins: false,
            input: None,
        }
    }
}

/// The changes to actions, each action once.
pub(crate) type ActionUpdates<'a> = BTreeMap<ActionKey, ActionUpdate<'a>>;

/// The update of one action, created if there is none yet.
pub(crate) fn update_of<'u, 'a>(
    updates: &'u mut ActionUpdates<'a>,
    key: ActionKey,
    status: ActionStatus,
) -> &'u mut ActionUpdate<'a> {
    let update = updates.entry(key).or_insert_with(|| ActionUpdate::to(status));
    update.status = status;
    update
}

/// Adds the consequences of outcomes; returns the actions that became ready, in order, with their
/// dependencies. Those that `leases` names are leased.
pub(crate) fn add_consequences(
    (execution, seq): &GroupKey,
    group: &mut ActionGroup,
    updates: &mut ActionUpdates<'_>,
    mut leases: impl FnMut(&ActionQueue) -> bool,
) -> Vec<(ActionKey, Vec<Name>)> {
    let key = |action: Name| ActionKey { execution: execution.clone(), seq: *seq, action };
    let SettleConsequences { freed, skipped, linked } = group.graph.propagate_outcomes();
    for (action, needs) in linked {
        update_of(updates, key(action), ActionStatus::Waiting).needs = Some(needs);
    }
    for action in skipped {
        update_of(updates, key(action), ActionStatus::Skipped).closing = Some(false);
    }
    let mut ready = Vec::with_capacity(freed.len());
    for action in freed {
        let leased = group.queues.get(&action).is_some_and(&mut leases);
        let status = if leased { ActionStatus::Leased } else { ActionStatus::Ready };
        let needs = group.graph.members.get(&action).map(|member| member.needs.clone()).unwrap_or_default();
        let update = update_of(updates, key(action.clone()), status);
        update.begins = true;
        update.due_at = None;
        ready.push((key(action), needs));
    }
    ready
}

/// The leasing worker, and its grant.
pub(crate) type LeaseTaker<'a> = (&'a WorkerId, &'a LeaseGrant);

/// Writes changes to locked actions. Returns the rows that are leased now; without a taker there are none.
pub(crate) async fn write_updates(
    connection: &mut PgConnection,
    updates: &ActionUpdates<'_>,
    taker: Option<LeaseTaker<'_>>,
    now: Timestamp,
) -> PostgresResult<Vec<PgRow>> {
    const UPDATE: &str = status_text!(concat!(
        "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), updated AS (
    UPDATE actions a
    SET status = k.status,
        attempts = CASE WHEN k.anew THEN 0 WHEN coalesce(k.closing, a.closing) THEN a.attempts
                        ELSE a.attempts + k.counted END,
        epoch = a.epoch + CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
        worker_id = CASE k.status WHEN 'leased' THEN $17 WHEN 'ready' THEN NULL WHEN 'waiting' THEN NULL
                                  ELSE a.worker_id END,
        due_at = CASE k.status WHEN 'leased' THEN clock.now + ",
        lease_length!("a", "$18"),
        "
                               WHEN 'ready' THEN coalesce(k.due_at, clock.now)
                               WHEN 'awaiting' THEN k.due_at END,
        attempt_until = CASE k.status WHEN 'leased' THEN clock.now + a.attempt_ms END,
        ready_at = CASE WHEN k.begins THEN clock.now ELSE a.ready_at END,
        expires_at = CASE WHEN k.status = 'ready'
                          THEN CASE WHEN k.begins THEN clock.now ELSE a.ready_at END
                               + least(CASE WHEN k.anew OR a.attempts + k.counted = 0 THEN a.start_ms END,
                                       a.close_ms) END,
        result = coalesce(k.result, a.result),
        error = CASE WHEN k.keeps_error THEN a.error ELSE k.error END,
        handled = coalesce(k.handled, a.handled),
        needs = coalesce(k.needs, a.needs),
        closing = coalesce(k.closing, a.closing),
        queue = CASE WHEN k.closing OR k.status = 'awaiting' THEN 'engine:' || a.tenant ELSE a.queue END,
        awaited = a.awaited OR k.status = 'awaiting',
        input = coalesce(k.input, a.input),
        revision = a.revision + CASE WHEN k.input IS NULL THEN 0 ELSE 1 END,
        settled_at = CASE WHEN k.status IN ({CONCLUDED_ACTIONS}) THEN $19 END
    FROM clock, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::boolean[],
                       $8::text[], $9::boolean[], $10::bigint[], $11::text[], $12::boolean[], $13::integer[],
                       $14::boolean[], $15::boolean[], $16::text[])
        AS k(tenant, execution_id, seq, action, status, result, keeps_error, error, handled, due_at, needs, closing,
             counted, anew, begins, input)
    WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
    RETURNING a.*
)
SELECT * FROM updated WHERE status = 'leased'"
    ));
    if updates.is_empty() {
        return Ok(Vec::new());
    }
    let columns: ActionColumns<'_> = updates.keys().collect();
    let each = || updates.values();
    let error = |update: &ActionUpdate<'_>| match update.error {
        ColumnChange::AsItIs | ColumnChange::Gone => None,
        ColumnChange::Now(error) => Some(error.as_str().to_owned()),
    };
    let counted = |update: &ActionUpdate<'_>| {
        let leased = i32::from(update.status == ActionStatus::Leased);
        match update.count {
            AttemptChange::Stays | AttemptChange::Begins => leased,
            AttemptChange::OneLess => leased - 1,
        }
    };
    Ok(columns
        .bound(UPDATE)
        .bind(each().map(|update| update.status.as_str()).collect::<Vec<_>>())
        .bind(each().map(|update| update.result.map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(each().map(|update| update.error == ColumnChange::AsItIs).collect::<Vec<_>>())
        .bind(each().map(error).collect::<Vec<_>>())
        .bind(each().map(|update| update.handling.map(action_rows::handling_column)).collect::<Vec<_>>())
        .bind(each().map(|update| update.due_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(
            each()
                .map(|update| {
                    update.needs.as_ref().map(|needs| RawJson::from_value(needs).as_str().to_owned())
                })
                .collect::<Vec<_>>(),
        )
        .bind(each().map(|update| update.closing).collect::<Vec<_>>())
        .bind(each().map(counted).collect::<Vec<_>>())
        .bind(each().map(|update| update.count == AttemptChange::Begins).collect::<Vec<_>>())
        .bind(each().map(|update| update.begins).collect::<Vec<_>>())
        .bind(each().map(|update| update.input.map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(taker.map(|(worker, _)| worker.as_str()))
        .bind(taker.map(|(_, grant)| millis(grant.ttl)))
        .bind(now.as_millis())
        .fetch_all(connection)
        .await?)
}
