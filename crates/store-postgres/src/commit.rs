//! The careful path of committing decisions of workers: the fence first (optimistic concurrency), then every
//! write, in one transaction.
//!
//! The executions' rows are locked in the order of their keys; a commit whose `expected` is not the row's
//! seq, whose execution was paused meanwhile, or one of whose events is decided already, writes nothing. The
//! writes of accepted commits need no further lock: every change to an undecided or deferred event, insertion
//! of actions or arming of timers holds the execution's row as well. (Therefore the events are read in a
//! statement of its own, after the lock: its snapshot includes the commit that the lock waited for.) Only
//! cancelling open actions meets settlements, at the events' rows. A commit that gives its execution a
//! correlation takes the lock of that correlation first of all ([`crate::signals`]).

use std::collections::HashMap;

use millstream_model::id::{AcceptNo, ExecutionKey, Seq, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::status::{ExecutionPhase, PauseState};
use millstream_model::time::Timestamp;
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::{
    CommitVerdict, ExecutionCommit, LeaseGrant, OpenActions, SnapshotWrite,
};
use millstream_store::incidents::opens_incident;
use millstream_store::status_text;
use sqlx::PgConnection;

use crate::commit_leases::{commit_verdicts, take_ready_slots};
use crate::commit_rows::{self, CommittedBy};
use crate::commit_tables::correlation_of;
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::event_rows::{self, EventColumns};
use crate::execution_store::{KeyColumns, LOCK_EXECUTIONS};
use crate::graph_rows;
use crate::incident_rows::{self, OpenedIncident};
use crate::new_actions;
use crate::signals::{self, CorrelatedExecution};

/// The fence's view of an execution.
struct LockedExecution {
    seq: Seq,
    pause: PauseState,
    phase: ExecutionPhase,
}

enum PostgresFence {
    Holds,
    Conflict,
    Missing,
}

impl PostgresStore {
    pub(crate) async fn commit_carefully(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> PostgresResult<Vec<CommitVerdict>> {
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        let given =
            batch.iter().filter_map(|commit| Some((&commit.execution.tenant, correlation_of(commit)?)));
        signals::lock_correlations(&mut transaction, given).await?;
        let locked = lock_executions(&mut transaction, batch).await?;
        let open = commit_rows::count_open(&mut transaction, batch).await?;
        let fences: Vec<PostgresFence> = batch
            .iter()
            .zip(open)
            .map(|(commit, open)| judge_fence(commit, locked.get(&commit.execution), open))
            .collect();
        let winners: Vec<&ExecutionCommit> = batch
            .iter()
            .zip(&fences)
            .filter_map(|(commit, fence)| matches!(fence, PostgresFence::Holds).then_some(commit))
            .collect();
        if winners.is_empty() {
            transaction.rollback().await?;
            return Ok(fences.into_iter().map(conflict_of).collect());
        }
        let mut written = write_winners(&mut transaction, &winners, worker, grant, now).await?.into_iter();
        transaction.commit().await?;
        Ok(fences
            .into_iter()
            .map(|fence| match fence {
                PostgresFence::Holds => written.next().unwrap_or(CommitVerdict::Conflict),
                PostgresFence::Conflict | PostgresFence::Missing => conflict_of(fence),
            })
            .collect())
    }
}

fn conflict_of(fence: PostgresFence) -> CommitVerdict {
    match fence {
        PostgresFence::Missing => CommitVerdict::Missing,
        PostgresFence::Conflict | PostgresFence::Holds => CommitVerdict::Conflict,
    }
}

async fn lock_executions(
    connection: &mut PgConnection,
    batch: &[ExecutionCommit],
) -> PostgresResult<HashMap<ExecutionKey, LockedExecution>> {
    let keys: KeyColumns<'_> = batch.iter().map(|commit| &commit.execution).collect();
    let rows = keys.bound(LOCK_EXECUTIONS).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let locked = LockedExecution {
                seq: decode::seq(row, "seq")?,
                pause: decode::pause_state(row)?,
                phase: decode::parsed(row, "phase")?,
            };
            Ok((decode::execution_key(row)?, locked))
        })
        .collect()
}

/// `open` is how many events of `decided` are still undecided or deferred.
fn judge_fence(commit: &ExecutionCommit, locked: Option<&LockedExecution>, open: usize) -> PostgresFence {
    let Some(locked) = locked else { return PostgresFence::Missing };
    let cancels = match commit.open_actions {
        OpenActions::Keep => false,
        OpenActions::Cancel => true,
    };
    let held = match locked.pause {
        PauseState::Running => false,
        PauseState::Paused => !cancels && !locked.phase.is_ended(),
    };
    if (locked.seq == commit.expected && !held && open == commit.decided.len())
        || mutation::is_active(Mutation::NoFence)
    {
        PostgresFence::Holds
    } else {
        PostgresFence::Conflict
    }
}

async fn write_winners(
    connection: &mut PgConnection,
    winners: &[&ExecutionCommit],
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<Vec<CommitVerdict>> {
    // Before anything else: it concerns actions that earlier commits left open.
    cancel_open_actions(connection, winners, now).await?;
    let each = || winners.iter().copied();
    let transitions: Vec<_> =
        each().flat_map(|commit| commit.transitions.iter().map(|row| (&commit.execution, row))).collect();
    let by = CommittedBy { worker, at: now };
    commit_rows::insert_transitions(connection, &transitions, Some(by)).await?;
    let moved: Vec<&ExecutionCommit> = each().filter(|commit| moves_execution(commit)).collect();
    if !moved.is_empty() {
        commit_rows::update_executions(connection, &moved, now).await?;
    }
    commit_rows::decide_events(connection, winners, worker, now).await?;
    let cancelled: Vec<_> = each()
        .flat_map(|commit| commit.cancelled_timers.iter().map(|seq| (&commit.execution, seq)))
        .collect();
    commit_rows::delete_timers(connection, &cancelled).await?;
    let timers: Vec<_> =
        each().flat_map(|commit| commit.timers.iter().map(|timer| (&commit.execution, timer))).collect();
    commit_rows::insert_timers(connection, &timers).await?;

    let rows = take_ready_slots(each(), grant);
    let moment = if rows.is_empty() {
        now
    } else {
        new_actions::insert_actions(connection, &rows, worker, grant, now).await?
    };
    open_incidents(connection, winners, now).await?;
    let ended: Vec<&ExecutionKey> = each()
        .filter(|commit| commit.state.phase.is_ended() && !commit.transitions.is_empty())
        .map(|commit| &commit.execution)
        .collect();
    incident_rows::resolve_of_ended(connection, &ended, now).await?;
    let numbers = emit_events(connection, winners, now).await?;
    let correlated: Vec<CorrelatedExecution<'_>> =
        each().filter_map(CorrelatedExecution::from_commit).collect();
    signals::deliver(connection, &correlated, now).await?;
    graph_rows::commit(connection, winners, now).await?;
    Ok(commit_verdicts(each(), &rows, grant, moment, numbers))
}

/// For actions that failed before they began.
async fn open_incidents(
    connection: &mut PgConnection,
    winners: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<()> {
    let incidents: Vec<OpenedIncident<'_>> = winners
        .iter()
        .flat_map(|commit| commit.actions.iter().map(move |action| (*commit, action)))
        .filter(|(commit, action)| opens_incident(commit.state.phase, Some(&action.key.action)))
        .filter_map(|(commit, action)| {
            Some(OpenedIncident {
                execution: &commit.execution,
                definition: &commit.definition,
                event_id: action.event_id,
                action: Some(&action.key),
                incident: action.incident.as_ref()?,
            })
        })
        .collect();
    incident_rows::open(connection, &incidents, now).await
}

/// A commit of only rejections and deferrals leaves the execution's row as it is.
fn moves_execution(commit: &ExecutionCommit) -> bool {
    !commit.transitions.is_empty() || commit.snapshot == SnapshotWrite::Write || commit.state.phase.is_ended()
}

async fn emit_events(
    connection: &mut PgConnection,
    winners: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<Vec<AcceptNo>> {
    let emitted: Vec<&EventSubmission> = winners.iter().flat_map(|commit| &commit.emitted).collect();
    if emitted.is_empty() {
        return Ok(Vec::new());
    }
    let columns: EventColumns<'_> = emitted.into_iter().collect();
    event_rows::emit(connection, &columns, now).await
}

/// Events first (settlements of several actions wait there), then their actions. The events' new status
/// follows from the actions.
async fn cancel_open_actions(
    connection: &mut PgConnection,
    winners: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<()> {
    const LOCK: &str = status_text!(
        "
SELECT e.event_id
FROM events e
JOIN (
    SELECT DISTINCT a.tenant, a.event_id
    FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
    JOIN actions a ON a.tenant = k.tenant AND a.execution_id = k.execution_id
    WHERE a.status NOT IN ({SETTLED_ACTIONS})
) o ON e.tenant = o.tenant AND e.event_id = o.event_id
ORDER BY e.tenant, e.event_id
FOR NO KEY UPDATE OF e"
    );
    const CANCEL: &str = status_text!(
        "
WITH open AS (
    SELECT a.tenant, a.execution_id, a.seq, a.action
    FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
    JOIN actions a ON a.tenant = k.tenant AND a.execution_id = k.execution_id
    WHERE a.status NOT IN ({UNCANCELLABLE_ACTIONS})
    ORDER BY a.tenant, a.execution_id, a.seq, a.action
    FOR NO KEY UPDATE OF a
)
UPDATE actions a
SET status = 'cancelled', due_at = NULL, expires_at = NULL, settled_at = $3, closing = FALSE
FROM open o
WHERE a.tenant = o.tenant AND a.execution_id = o.execution_id AND a.seq = o.seq AND a.action = o.action"
    );
    let cancels = winners.iter().filter(|commit| match commit.open_actions {
        OpenActions::Keep => false,
        OpenActions::Cancel => true,
    });
    let executions: Vec<&ExecutionKey> = cancels.map(|commit| &commit.execution).collect();
    if executions.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = executions.into_iter().collect();
    keys.bound(LOCK).execute(&mut *connection).await?;
    keys.bound(CANCEL).bind(now.as_millis()).execute(connection).await?;
    Ok(())
}
