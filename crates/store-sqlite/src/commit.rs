//! Committing what workers decided: one transaction, a verdict per execution.
//!
//! The fence comes first: executions that are at another seq or paused, and those with an event that
//! was decided meanwhile, drop out before anything is written. What is left is written table by table, one statement each.

use std::collections::HashMap;

use millstream_core::id::{EventId, ExecutionKey, Seq, WorkerId};
use millstream_core::log::{ArmedTimer, Transition};
use millstream_core::raw::RawJson;
use millstream_core::status::{EventStatus, PauseState, Phase};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::{
    Commit, Committed, EventVerdict, LeaseGrant, OpenActions, SnapshotWrite,
};
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::accept::accept_pending;
use crate::commit_actions::{cancel_open_actions, insert_actions, is_ready};
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, EventParam, ExecutionParam};

pub(crate) async fn commit_batch(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    batch: &[Commit],
    lease: LeaseGrant,
    now: Timestamp,
) -> Result<Vec<Committed>> {
    let fences = read_fences(connection, batch).await?;
    let refusals: Vec<_> = batch.iter().map(|commit| refuse(commit, fences.get(&commit.execution))).collect();
    let passed: Vec<&Commit> = batch
        .iter()
        .zip(&refusals)
        .filter(|(_, refusal)| refusal.is_none())
        .map(|(commit, _)| commit)
        .collect();
    let done =
        if passed.is_empty() { Vec::new() } else { write(connection, worker, &passed, lease, now).await? };

    let mut done = done.into_iter();
    Ok(refusals
        .into_iter()
        .map(|refusal| refusal.or_else(|| done.next()).unwrap_or(Committed::Conflict))
        .collect())
}

/// What the row says that a commit has to agree with.
struct Fence {
    seq: Seq,
    pause: PauseState,
    phase: Phase,
    /// How many events of `decided` are still undecided or deferred.
    open: usize,
}

fn refuse(commit: &Commit, fence: Option<&Fence>) -> Option<Committed> {
    let Some(fence) = fence else { return Some(Committed::Missing) };
    let cancels = match commit.open_actions {
        OpenActions::Keep => false,
        OpenActions::Cancel => true,
    };
    let held = match fence.pause {
        PauseState::Running => false,
        PauseState::Paused => !cancels && !fence.phase.is_ended(),
    };
    let meets = fence.seq == commit.expected && !held && fence.open == commit.decided.len();
    (!meets).then_some(Committed::Conflict)
}

async fn read_fences(
    connection: &mut SqliteConnection,
    batch: &[Commit],
) -> Result<HashMap<ExecutionKey, Fence>> {
    const READ_FENCES: &str = "
        SELECT x.tenant, x.execution_id, x.seq, x.paused_reason, x.phase,
               (SELECT count(*) FROM json_each(i.value -> 'decided') AS d
                CROSS JOIN events AS e ON e.tenant = x.tenant AND e.event_id = d.value
                WHERE e.execution_id = x.execution_id AND e.status IN ('pending', 'deferred')) AS open
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        decided: Vec<EventId>,
    }
    let keys = param::rows(batch.iter().map(|commit| Row {
        key: ExecutionParam::of(&commit.execution),
        decided: commit.decided.iter().map(|decided| decided.event_id).collect(),
    }))?;
    let rows = sqlx::query(READ_FENCES).bind(keys).fetch_all(connection).await.map_err(store_error)?;
    rows.iter()
        .map(Fields)
        .map(|row| {
            let fence = Fence {
                seq: row.seq("seq")?,
                pause: row.pause()?,
                phase: row.word("phase", Phase::parse)?,
                open: row.index("open")?,
            };
            Ok((row.execution()?, fence))
        })
        .collect()
}

async fn write(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    passed: &[&Commit],
    lease: LeaseGrant,
    now: Timestamp,
) -> Result<Vec<Committed>> {
    update_executions(connection, passed).await?;
    let transitions: Vec<_> = passed
        .iter()
        .flat_map(|commit| commit.transitions.iter().map(|one| (&commit.execution, one)))
        .collect();
    insert_transitions(connection, &transitions).await?;
    decide_events(connection, worker, passed, now).await?;
    delete_timers(connection, passed).await?;
    let timers: Vec<_> =
        passed.iter().flat_map(|commit| commit.timers.iter().map(|one| (&commit.execution, one))).collect();
    insert_timers(connection, &timers).await?;
    cancel_open_actions(connection, passed, now).await?;
    let leased = insert_actions(connection, worker, passed, lease, now).await?;
    let emitted: Vec<_> = passed.iter().flat_map(|commit| &commit.emitted).collect();
    let mut numbers = accept_pending(connection, &emitted, now).await?.into_iter();

    let mut by_execution: HashMap<ExecutionKey, Vec<LeasedAction>> = HashMap::new();
    for action in leased {
        by_execution.entry(action.lease.key.execution.clone()).or_default().push(action);
    }
    Ok(passed
        .iter()
        .map(|commit| {
            let leased = by_execution.remove(&commit.execution).unwrap_or_default();
            let ready = commit.actions.iter().filter(|action| is_ready(action)).count();
            Committed::Done {
                unleased: ready.saturating_sub(leased.len()),
                leased,
                emitted: numbers.by_ref().take(commit.emitted.len()).collect(),
            }
        })
        .collect())
}

async fn update_executions(connection: &mut SqliteConnection, passed: &[&Commit]) -> Result<()> {
    // A commit that ends the execution lifts its pause; one with a failed event begins one.
    const UPDATE_EXECUTIONS: &str = "
        UPDATE executions SET
            seq = i.value ->> 'seq',
            state = i.value ->> 'state',
            phase = i.value ->> 'phase',
            paused_reason = i.value ->> 'paused_reason',
            snapshot = coalesce(i.value ->> 'snapshot', snapshot),
            snapshot_seq = CASE WHEN i.value ->> 'snapshot' IS NULL THEN snapshot_seq ELSE i.value ->> 'seq' END,
            updated_at = i.value ->> 'updated_at',
            ended_at = CASE WHEN i.value ->> 'phase' <> 'active'
                            THEN coalesce(ended_at, i.value ->> 'updated_at') END
        FROM json_each(?1) AS i
        WHERE executions.tenant = i.value ->> 'tenant' AND executions.execution_id = i.value ->> 'execution'";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        seq: i64,
        state: &'a str,
        phase: &'a str,
        paused_reason: Option<&'a str>,
        snapshot: Option<String>,
        updated_at: i64,
    }
    let rows = passed.iter().map(|commit| Row {
        key: ExecutionParam::of(&commit.execution),
        seq: commit.state.seq.0,
        state: commit.state.state.as_str(),
        phase: commit.state.phase.as_str(),
        paused_reason: pause_reason(commit),
        snapshot: match commit.snapshot {
            SnapshotWrite::Write => Some(RawJson::of(&commit.state).to_string()),
            SnapshotWrite::Skip => None,
        },
        updated_at: commit.state.at.as_millis(),
    });
    sqlx::query(UPDATE_EXECUTIONS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}

fn pause_reason(commit: &Commit) -> Option<&str> {
    if commit.state.phase.is_ended() {
        return None;
    }
    commit.decided.iter().find_map(|decided| match &decided.verdict {
        EventVerdict::Applied { status: EventStatus::Failed, error, .. } => {
            Some(error.as_deref().unwrap_or("an action failed"))
        }
        EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } | EventVerdict::Deferred => None,
    })
}

pub(crate) async fn insert_transitions(
    connection: &mut SqliteConnection,
    transitions: &[(&ExecutionKey, &Transition)],
) -> Result<()> {
    const INSERT_TRANSITIONS: &str = "
        INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision)
        SELECT value ->> 'tenant', value ->> 'execution', value ->> 'seq', value ->> 'event', value ->> 'name',
               value ->> 'at', value ->> 'decision'
        FROM json_each(?1)";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        event: EventParam<'a>,
        execution: &'a str,
        seq: i64,
        name: &'a str,
        at: i64,
        decision: String,
    }
    if transitions.is_empty() {
        return Ok(());
    }
    let rows = transitions.iter().map(|(key, transition)| Row {
        event: EventParam::of(&key.tenant, transition.event_id),
        execution: key.execution.as_str(),
        seq: transition.seq.0,
        name: transition.name.as_str(),
        at: transition.at.as_millis(),
        decision: RawJson::of(&transition.decision).to_string(),
    });
    sqlx::query(INSERT_TRANSITIONS)
        .bind(param::rows(rows)?)
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

async fn decide_events(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    passed: &[&Commit],
    now: Timestamp,
) -> Result<()> {
    const DECIDE_EVENTS: &str = "
        UPDATE events SET
            status = i.value ->> 'status',
            worker_id = coalesce(i.value ->> 'worker', worker_id),
            error = i.value ->> 'error',
            from_state = i.value ->> 'from_state',
            to_state = i.value ->> 'to_state',
            seq = i.value ->> 'seq',
            started_at = i.value ->> 'started_at',
            completed_at = i.value ->> 'completed_at'
        FROM json_each(?1) AS i
        WHERE events.tenant = i.value ->> 'tenant' AND events.event_id = i.value ->> 'event'
          AND events.execution_id = i.value ->> 'execution' AND events.status IN ('pending', 'deferred')";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        event: EventParam<'a>,
        execution: &'a str,
        status: EventStatus,
        worker: Option<&'a str>,
        error: Option<&'a str>,
        from_state: Option<&'a str>,
        to_state: Option<&'a str>,
        seq: Option<Seq>,
        started_at: Option<i64>,
        completed_at: Option<i64>,
    }
    let rows: Vec<_> = passed
        .iter()
        .flat_map(|commit| commit.decided.iter().map(|decided| (&commit.execution, decided)))
        .map(|(key, decided)| {
            let blank = Row {
                event: EventParam::of(&key.tenant, decided.event_id),
                execution: key.execution.as_str(),
                status: EventStatus::Deferred,
                worker: None,
                error: None,
                from_state: None,
                to_state: None,
                seq: None,
                started_at: None,
                completed_at: None,
            };
            match &decided.verdict {
                EventVerdict::Applied { seq, from, to, status, error } => Row {
                    status: *status,
                    worker: Some(worker.as_str()),
                    error: error.as_deref(),
                    from_state: from.as_ref().map(|name| name.as_str()),
                    to_state: Some(to.as_str()),
                    seq: Some(*seq),
                    started_at: Some(now.as_millis()),
                    completed_at: status.is_final().then_some(now.as_millis()),
                    ..blank
                },
                EventVerdict::Rejected { state, reason } => Row {
                    status: EventStatus::Rejected,
                    worker: Some(worker.as_str()),
                    error: Some(reason),
                    from_state: Some(state.as_str()),
                    completed_at: Some(now.as_millis()),
                    ..blank
                },
                EventVerdict::Deferred => blank,
            }
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(DECIDE_EVENTS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}

async fn delete_timers(connection: &mut SqliteConnection, passed: &[&Commit]) -> Result<()> {
    const DELETE_TIMERS: &str = "
        DELETE FROM timers WHERE (tenant, execution_id, armed_seq) IN (
            SELECT value ->> 'tenant', value ->> 'execution', value ->> 'armed_seq' FROM json_each(?1))";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        armed_seq: Seq,
    }
    let rows: Vec<_> = passed
        .iter()
        .flat_map(|commit| {
            let key = &commit.execution;
            commit.cancelled_timers.iter().map(|seq| Row { key: ExecutionParam::of(key), armed_seq: *seq })
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(DELETE_TIMERS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}

pub(crate) async fn insert_timers(
    connection: &mut SqliteConnection,
    timers: &[(&ExecutionKey, &ArmedTimer)],
) -> Result<()> {
    const INSERT_TIMERS: &str = "
        INSERT INTO timers (tenant, execution_id, armed_seq, ordinal, fire_at, send)
        SELECT value ->> 'tenant', value ->> 'execution', value ->> 'armed_seq', value ->> 'ordinal',
               value ->> 'fire_at', value ->> 'send'
        FROM json_each(?1)";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        armed_seq: Seq,
        ordinal: i32,
        fire_at: i64,
        send: &'a str,
    }
    if timers.is_empty() {
        return Ok(());
    }
    let rows = timers.iter().map(|(key, timer)| Row {
        key: ExecutionParam::of(key),
        armed_seq: timer.armed_seq,
        ordinal: timer.ordinal,
        fire_at: timer.fire_at.as_millis(),
        send: timer.send.as_str(),
    });
    sqlx::query(INSERT_TIMERS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}
