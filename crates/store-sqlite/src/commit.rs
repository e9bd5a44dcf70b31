//! Committing decisions of workers: one transaction, a verdict per execution.
//!
//! The fence comes first (optimistic concurrency): an execution that is at another seq or paused, or one of
//! whose events was decided meanwhile, is refused before anything of it is written.

use millstream_model::id::{AcceptNo, ExecutionKey, Seq, WorkerId};
use millstream_model::status::{ExecutionPhase, PauseState};
use millstream_model::time::Timestamp;
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::{CommitVerdict, LeaseGrant, NewAction, OpenActions};
use millstream_store::incidents::opens_incident;
use rusqlite::{CachedStatement, Connection};

use crate::accept::{EventAcceptance, accept_emitted};
use crate::commit_actions::{cancel_open_actions, insert_actions, is_ready};
use crate::commit_rows::{
    decide_event, delete_timers, insert_timer, insert_transition, set_correlation, update_execution,
};
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::graph_rows;
use crate::incident_rows::{IncidentOpening, end_incidents, open_incident};
use crate::rendered_commit::{CorrelationChange, RenderedCommit};
use crate::signals::{SignalReceiver, deliver_signals};

pub(crate) fn commit_batch(
    connection: &Connection,
    worker: &WorkerId,
    batch: &[RenderedCommit],
    lease: &LeaseGrant,
    now: Timestamp,
) -> SqliteResult<Vec<CommitVerdict>> {
    let (fences, slots) = (FenceReader::prepare(connection)?, lease.slots);
    let mut committing = CommitTransaction { connection, fences, worker, lease, slots, now };
    batch.iter().map(|commit| committing.commit_one(commit)).collect()
}

struct CommitTransaction<'c> {
    connection: &'c Connection,
    fences: FenceReader<'c>,
    worker: &'c WorkerId,
    lease: &'c LeaseGrant,
    /// Remaining slots.
    slots: usize,
    now: Timestamp,
}

impl CommitTransaction<'_> {
    fn commit_one(&mut self, commit: &RenderedCommit) -> SqliteResult<CommitVerdict> {
        let Some(fence) = self.fences.read_fence(&commit.execution)? else {
            return Ok(CommitVerdict::Missing);
        };
        if !fence.lets_pass(commit) || !self.fences.are_waiting(commit)? {
            return Ok(CommitVerdict::Conflict);
        }
        let Self { connection, worker, lease, slots, now, .. } = *self;
        update_execution(connection, fence.position, commit)?;
        for (transition, decision) in &commit.transitions {
            insert_transition(connection, &commit.execution, transition, decision, Some(worker), now)?;
        }
        for decided in &commit.decided {
            decide_event(connection, worker, &commit.execution, decided, now)?;
        }
        delete_timers(connection, &commit.execution, &commit.cancelled_timers)?;
        for timer in &commit.timers {
            insert_timer(connection, &commit.execution, timer)?;
        }
        match commit.open_actions {
            OpenActions::Keep => {}
            OpenActions::Cancel => cancel_open_actions(connection, &commit.execution, now)?,
        }
        let leased = insert_actions(connection, worker, commit, lease, slots, now)?;
        self.slots = slots.saturating_sub(leased.len());
        let ready = commit.actions.iter().filter(|action| is_ready(action)).count();
        for action in &commit.actions {
            open_incident_of(connection, commit, action, now)?;
        }
        // An execution with an open incident is paused.
        if commit.phase.is_ended() && fence.pause == PauseState::Paused {
            end_incidents(connection, &commit.execution, now)?;
        }
        self.write_graph(commit)?;
        let emitted = self.emit_events(&commit.emitted)?;
        self.attach_signals(fence.position, commit)?;
        Ok(CommitVerdict::Done { unleased: ready.saturating_sub(leased.len()), leased, emitted })
    }

    /// After the events of the commit itself: signals buffered for the correlation follow them.
    fn attach_signals(&self, position: AcceptNo, commit: &RenderedCommit) -> SqliteResult<()> {
        match &commit.correlation {
            CorrelationChange::Kept => Ok(()),
            CorrelationChange::Gone => set_correlation(self.connection, position, None),
            CorrelationChange::Set(correlation) => {
                set_correlation(self.connection, position, Some(correlation))?;
                let mut acceptance = EventAcceptance::begin(self.connection)?;
                let receiver = SignalReceiver {
                    execution: &commit.execution,
                    definition: &commit.definition.name,
                    correlation,
                };
                deliver_signals(self.connection, &mut acceptance, &receiver, self.now)?;
                acceptance.store_last_number()
            }
        }
    }

    fn write_graph(&self, commit: &RenderedCommit) -> SqliteResult<()> {
        let Some(rows) = &commit.graph else { return Ok(()) };
        graph_rows::write_graph(self.connection, &commit.execution, rows)?;
        if let (Some((first, _)), Some((last, _))) = (commit.transitions.first(), commit.transitions.last()) {
            let (first, last) = (first.seq, last.seq);
            graph_rows::feed_transitions(self.connection, &commit.execution, first, last, self.now)?;
        }
        Ok(())
    }

    fn emit_events(&self, events: &[EventSubmission]) -> SqliteResult<Vec<AcceptNo>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        accept_emitted(self.connection, events, self.now)
    }
}

/// An action that failed before it began, and whose failure is not handled.
fn open_incident_of(
    connection: &Connection,
    commit: &RenderedCommit,
    action: &NewAction,
    now: Timestamp,
) -> SqliteResult<()> {
    let Some(incident) =
        action.incident.as_ref().filter(|_| opens_incident(commit.phase, Some(&action.key.action)))
    else {
        return Ok(());
    };
    let opening = IncidentOpening {
        execution: &commit.execution,
        definition: &commit.definition,
        event_id: action.event_id,
        action: Some(&action.key),
        incident,
    };
    open_incident(connection, &opening, now)
}

/// The stored state that a commit has to agree with.
struct FenceReader<'c> {
    read: CachedStatement<'c>,
    is_waiting: CachedStatement<'c>,
}

struct SqliteFence {
    position: AcceptNo,
    seq: Seq,
    pause: PauseState,
    phase: ExecutionPhase,
}

impl<'c> FenceReader<'c> {
    fn prepare(connection: &'c Connection) -> SqliteResult<Self> {
        const READ_FENCE: &str = "
            SELECT position, seq, paused_reason, phase FROM executions
            WHERE tenant = ?1 AND execution_id = ?2";
        const IS_WAITING: &str = "
            SELECT EXISTS (SELECT 1 FROM mailbox
                           WHERE tenant = ?1 AND execution_id = ?2 AND accept_no = ?3 AND event_id = ?4)";
        Ok(Self {
            read: connection.prepare_cached(READ_FENCE)?,
            is_waiting: connection.prepare_cached(IS_WAITING)?,
        })
    }

    fn read_fence(&mut self, key: &ExecutionKey) -> SqliteResult<Option<SqliteFence>> {
        let mut rows = self.read.query((key.tenant.as_str(), key.execution.as_str()))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let row = SqliteFields(row);
        Ok(Some(SqliteFence {
            position: row.accept_no(0)?,
            seq: row.seq(1)?,
            pause: row.pause(2)?,
            phase: row.word(3, ExecutionPhase::parse)?,
        }))
    }

    /// Whether none of the events was decided meanwhile.
    fn are_waiting(&mut self, commit: &RenderedCommit) -> SqliteResult<bool> {
        let key = &commit.execution;
        for decided in &commit.decided {
            let is_waiting: bool = self.is_waiting.query_row(
                (
                    key.tenant.as_str(),
                    key.execution.as_str(),
                    decided.accept_no.0,
                    decided.event_id.0.as_bytes(),
                ),
                |row| row.get(0),
            )?;
            if !is_waiting {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl SqliteFence {
    fn lets_pass(&self, commit: &RenderedCommit) -> bool {
        let cancels = match commit.open_actions {
            OpenActions::Keep => false,
            OpenActions::Cancel => true,
        };
        let held = match self.pause {
            PauseState::Running => false,
            PauseState::Paused => !cancels && !self.phase.is_ended(),
        };
        self.seq == commit.expected && !held
    }
}
