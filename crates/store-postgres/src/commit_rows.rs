//! The rows that accepting and committing write about executions: one statement each, all rows at once.

use millstream_model::id::{AcceptNo, ExecutionKey, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::event_log::ExecutionStart;
use millstream_store::execution_store::{DecidedEvent, EventVerdict, ExecutionCommit};
use millstream_workflow::log::Transition;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::commit_tables::{
    ArmedRow, DisarmedRow, MovedRow, StartRow, TransitionRow, armed_table, disarmed_table, letter_table,
    paused_table, start_table, transition_table,
};
use crate::decode;
use crate::errors::PostgresResult;
use crate::statement_inputs::{NamedStatement, StatementInputs};

/// Insert executions that start, in the order of their keys. Returns how many were new.
pub(crate) async fn insert_executions(
    connection: &mut PgConnection,
    starts: &[(&ExecutionStart, AcceptNo)],
) -> PostgresResult<usize> {
    static INSERT: NamedStatement = NamedStatement::new(
        "
INSERT INTO executions ({starts.columns})
SELECT k.* FROM {starts}
ORDER BY k.tenant COLLATE \"C\", k.execution_id COLLATE \"C\"
ON CONFLICT (tenant, execution_id) DO NOTHING",
    );
    if starts.is_empty() {
        return Ok(0);
    }
    let rows: Vec<StartRow<'_>> = starts.iter().map(|(start, at)| StartRow::of(start, *at)).collect();
    let inputs = StatementInputs::default().table("starts", start_table(&rows));
    let done = INSERT.bind(inputs).execute(connection).await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// The committing worker of transitions, and the time. A start is committed by the ingress, at its own time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommittedBy<'a> {
    pub worker: &'a WorkerId,
    pub at: Timestamp,
}

pub(crate) async fn insert_transitions(
    connection: &mut PgConnection,
    transitions: &[(&ExecutionKey, &Transition)],
    by: Option<CommittedBy<'_>>,
) -> PostgresResult<()> {
    static INSERT: NamedStatement = NamedStatement::new(
        "
INSERT INTO transitions ({transitions.columns}, worker_id, committed_at)
SELECT k.*, {worker}, coalesce({committed_at}, k.at) FROM {transitions}",
    );
    // For tests that remove the fence: the primary key would act as a second fence.
    static OVERLOOK: NamedStatement = NamedStatement::new(
        "
INSERT INTO transitions ({transitions.columns}, worker_id, committed_at)
SELECT k.*, {worker}, coalesce({committed_at}, k.at) FROM {transitions}
ON CONFLICT DO NOTHING",
    );
    if transitions.is_empty() {
        return Ok(());
    }
    let statement = if mutation::is_active(Mutation::NoFence) { &OVERLOOK } else { &INSERT };
    let rows: Vec<TransitionRow<'_>> =
        transitions.iter().map(|(key, transition)| TransitionRow::of(key, transition)).collect();
    let inputs = StatementInputs::default()
        .table("transitions", transition_table(&rows))
        .text("worker", by.map(|by| by.worker.as_str()))
        .number("committed_at", by.map(|by| by.at.as_millis()));
    statement.bind(inputs).execute(connection).await?;
    Ok(())
}

pub(crate) async fn insert_timers(
    connection: &mut PgConnection,
    timers: &[ArmedRow<'_>],
) -> PostgresResult<()> {
    static INSERT: NamedStatement =
        NamedStatement::new("INSERT INTO timers ({timers.columns}) SELECT k.* FROM {timers}");
    if timers.is_empty() {
        return Ok(());
    }
    let inputs = StatementInputs::default().table("timers", armed_table(timers));
    INSERT.bind(inputs).execute(connection).await?;
    Ok(())
}

/// Waits for a timer that is firing; the firing transaction waits for no lock, so there is no deadlock.
pub(crate) async fn delete_timers(
    connection: &mut PgConnection,
    timers: &[DisarmedRow<'_>],
) -> PostgresResult<()> {
    static DELETE: NamedStatement = NamedStatement::new(
        "
DELETE FROM timers t
USING {timers}
WHERE t.tenant = k.tenant AND t.execution_id = k.execution_id AND t.armed_seq = k.armed_seq",
    );
    if timers.is_empty() {
        return Ok(());
    }
    let inputs = StatementInputs::default().table("timers", disarmed_table(timers));
    DELETE.bind(inputs).execute(connection).await?;
    Ok(())
}

/// Move executions (locked before) to their new state. Ending lifts the pause.
pub(crate) async fn update_executions(
    connection: &mut PgConnection,
    commits: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<()> {
    static UPDATE: NamedStatement = NamedStatement::new(
        "
UPDATE executions x
SET seq = k.seq, state = k.state, phase = k.phase,
    snapshot = coalesce(k.snapshot, x.snapshot),
    snapshot_seq = CASE WHEN k.snapshot IS NULL THEN x.snapshot_seq ELSE k.seq END,
    paused_reason = CASE WHEN k.phase = 'active' THEN coalesce(x.paused_reason, k.pause) END,
    updated_at = k.updated_at,
    ended_at = CASE WHEN k.phase <> 'active' THEN coalesce(x.ended_at, k.updated_at) END,
    correlation = coalesce(k.correlation, x.correlation)
FROM {executions}
WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id",
    );
    let rows: Vec<MovedRow<'_>> = commits.iter().map(|commit| MovedRow::of(commit, now)).collect();
    let inputs = StatementInputs::default().table("executions", paused_table(&rows));
    UPDATE.bind(inputs).execute(connection).await?;
    Ok(())
}

/// How many of the events that each commit decides are still undecided or deferred, in order. The executions'
/// locks keep that stable.
pub(crate) async fn count_open(
    connection: &mut PgConnection,
    batch: &[ExecutionCommit],
) -> PostgresResult<Vec<usize>> {
    static COUNT: NamedStatement = NamedStatement::new(
        "
SELECT k.place, count(*) AS open
FROM {letters}
CROSS JOIN LATERAL (
    SELECT FROM mailbox m
    WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
      AND m.event_id = k.event_id
    OFFSET 0) m
GROUP BY k.place",
    );
    let rows: Vec<_> = (0i64..)
        .zip(batch)
        .flat_map(|(place, commit)| commit.decided.iter().map(move |one| (place, &commit.execution, one)))
        .collect();
    let mut open = vec![0; batch.len()];
    if rows.is_empty() {
        return Ok(open);
    }
    let letters =
        letter_table(&rows, |(_, key, decided)| (key, decided)).number("place", |(place, ..)| *place);
    let inputs = StatementInputs::default().table("letters", letters);
    for row in &COUNT.bind(inputs).fetch_all(connection).await? {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        if let Some(open) = open.get_mut(place) {
            *open = usize::try_from(row.try_get::<i64, _>("open")?).unwrap_or(0);
        }
    }
    Ok(open)
}

/// Record verdicts on events that the fence has found undecided or deferred: a decided event leaves the
/// mailbox, and a final status without a transition is written on the event. The executions' locks cover
/// these rows.
pub(crate) async fn decide_events(
    connection: &mut PgConnection,
    commits: &[&ExecutionCommit],
    worker: &WorkerId,
    now: Timestamp,
) -> PostgresResult<()> {
    static TAKE: NamedStatement = NamedStatement::new(
        "
DELETE FROM mailbox m
USING {letters}
WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
  AND m.event_id = k.event_id",
    );
    static DEFER: NamedStatement = NamedStatement::new(
        "
UPDATE mailbox m SET deferred = TRUE
FROM {letters}
WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
  AND m.event_id = k.event_id",
    );
    let all = || {
        commits.iter().flat_map(|commit| commit.decided.iter().map(|decided| (&commit.execution, decided)))
    };
    let is_deferred = |decided: &DecidedEvent| match &decided.verdict {
        EventVerdict::Deferred => true,
        EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } => false,
    };
    let (deferred, taken): (Vec<_>, Vec<_>) = all().partition(|(_, decided)| is_deferred(decided));
    for (statement, letters) in [(&DEFER, &deferred), (&TAKE, &taken)] {
        if !letters.is_empty() {
            let inputs = StatementInputs::default().table("letters", letter_table(letters, |letter| *letter));
            statement.bind(inputs).execute(&mut *connection).await?;
        }
    }
    let verdicts: Vec<VerdictRow<'_>> =
        taken.iter().filter_map(|(key, decided)| VerdictRow::of(key, decided)).collect();
    write_verdicts(connection, &verdicts, worker, now).await
}

/// A final status that is written on the event itself.
struct VerdictRow<'a> {
    tenant: &'a str,
    event_id: Uuid,
    verdict: &'static str,
    error: Option<&'a str>,
    rejected_in: Option<&'a str>,
}

impl<'a> VerdictRow<'a> {
    fn of(key: &'a ExecutionKey, decided: &'a DecidedEvent) -> Option<Self> {
        let (tenant, event_id) = (key.tenant.as_str(), decided.event_id.0);
        match &decided.verdict {
            EventVerdict::Applied { status: EventStatus::Failed, error, .. } => {
                Some(Self { tenant, event_id, verdict: "failed", error: error.as_deref(), rejected_in: None })
            }
            EventVerdict::Rejected { state, reason } => {
                let rejected_in = Some(state.as_str());
                Some(Self { tenant, event_id, verdict: "rejected", error: Some(reason), rejected_in })
            }
            EventVerdict::Applied { .. } | EventVerdict::Deferred => None,
        }
    }
}

async fn write_verdicts(
    connection: &mut PgConnection,
    rows: &[VerdictRow<'_>],
    worker: &WorkerId,
    now: Timestamp,
) -> PostgresResult<()> {
    const WRITE: &str = "
UPDATE events e
SET verdict = k.verdict, error = k.error, rejected_in = k.rejected_in,
    rejected_by = CASE WHEN k.verdict = 'rejected' THEN $6 END, closed_at = $7
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[])
    AS k(tenant, event_id, verdict, error, rejected_in)
WHERE e.tenant = k.tenant AND e.event_id = k.event_id";
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(WRITE)
        .bind(rows.iter().map(|row| row.tenant).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.verdict).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.error.map(decode::strip_nul)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.rejected_in).collect::<Vec<_>>())
        .bind(worker.as_str())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}
