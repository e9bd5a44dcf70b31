//! The rows that accepting and committing write about executions: one statement each, all rows at once.

use millstream_model::id::{AcceptNo, ExecutionKey, Seq, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::event_log::ExecutionStart;
use millstream_store::execution_store::{DecidedEvent, EventVerdict, ExecutionCommit, SnapshotWrite};
use millstream_workflow::log::{ArmedTimer, Transition};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

/// Insert executions that start, in the order of their keys. Returns how many were new.
pub(crate) async fn insert_executions(
    connection: &mut PgConnection,
    starts: &[(&ExecutionStart, AcceptNo)],
) -> PostgresResult<usize> {
    const INSERT: &str = "
INSERT INTO executions (tenant, execution_id, definition, version, input_hash, position, seq, state, phase,
                        snapshot, snapshot_seq, created_at, updated_at, ended_at, parent_id, parent_close,
                        correlation)
SELECT k.tenant, k.execution_id, k.definition, k.version, k.input_hash, k.position, k.seq, k.state, k.phase,
       k.snapshot, k.seq, k.at, k.at, CASE WHEN k.phase <> 'active' THEN k.at END,
       k.parent_id, k.parent_close, k.correlation
FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::bytea[], $6::bigint[], $7::bigint[],
            $8::text[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::text[])
    AS k(tenant, execution_id, definition, version, input_hash, position, seq, state, phase, snapshot, at,
         parent_id, parent_close, correlation)
ORDER BY k.tenant COLLATE \"C\", k.execution_id COLLATE \"C\"
ON CONFLICT (tenant, execution_id) DO NOTHING";
    if starts.is_empty() {
        return Ok(0);
    }
    let snapshots: Vec<RawJson> = starts.iter().map(|(start, _)| RawJson::from_value(&start.state)).collect();
    let each = || starts.iter().map(|(start, _)| *start);
    let parents = || each().map(|start| start.state.parent.as_ref());
    let keys: KeyColumns<'_> = each().map(|start| &start.key).collect();
    let done = keys
        .bound(INSERT)
        .bind(each().map(|start| start.definition.name.as_str()).collect::<Vec<_>>())
        .bind(each().map(|start| start.definition.version).collect::<Vec<_>>())
        .bind(each().map(|start| &start.input_hash[..]).collect::<Vec<_>>())
        .bind(starts.iter().map(|(_, position)| position.0).collect::<Vec<_>>())
        .bind(each().map(|start| start.state.seq.0).collect::<Vec<_>>())
        .bind(each().map(|start| start.state.state.as_str()).collect::<Vec<_>>())
        .bind(each().map(|start| start.state.phase.as_str()).collect::<Vec<_>>())
        .bind(snapshots.iter().map(RawJson::as_str).collect::<Vec<_>>())
        .bind(each().map(|start| start.state.at.as_millis()).collect::<Vec<_>>())
        .bind(parents().map(|parent| Some(parent?.execution.as_str())).collect::<Vec<_>>())
        .bind(parents().map(|parent| Some(parent?.close.as_str())).collect::<Vec<_>>())
        .bind(each().map(|start| start.state.correlation.as_deref()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
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
    const INSERT: &str = "
INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, worker_id, committed_at)
SELECT k.*, $8, coalesce($9, k.at)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::bigint[], $7::text[])
    AS k(tenant, execution_id, seq, event_id, name, at, decision)";
    // For tests that remove the fence: the primary key would act as a second fence.
    const OVERLOOK: &str = "
INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, worker_id, committed_at)
SELECT k.*, $8, coalesce($9, k.at)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::bigint[], $7::text[])
    AS k(tenant, execution_id, seq, event_id, name, at, decision)
ON CONFLICT DO NOTHING";
    if transitions.is_empty() {
        return Ok(());
    }
    let statement = if mutation::is_active(Mutation::NoFence) { OVERLOOK } else { INSERT };
    let keys: KeyColumns<'_> = transitions.iter().map(|(key, _)| *key).collect();
    let decisions: Vec<RawJson> =
        transitions.iter().map(|(_, row)| RawJson::from_value(&row.decision)).collect();
    keys.bound(statement)
        .bind(transitions.iter().map(|(_, row)| row.seq.0).collect::<Vec<_>>())
        .bind(transitions.iter().map(|(_, row)| row.event_id.0).collect::<Vec<_>>())
        .bind(transitions.iter().map(|(_, row)| row.name.as_str()).collect::<Vec<_>>())
        .bind(transitions.iter().map(|(_, row)| row.at.as_millis()).collect::<Vec<_>>())
        .bind(decisions.iter().map(RawJson::as_str).collect::<Vec<_>>())
        .bind(by.map(|by| by.worker.as_str()))
        .bind(by.map(|by| by.at.as_millis()))
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn insert_timers(
    connection: &mut PgConnection,
    timers: &[(&ExecutionKey, &ArmedTimer)],
) -> PostgresResult<()> {
    const INSERT: &str = "
INSERT INTO timers (tenant, execution_id, armed_seq, ordinal, fire_at, send)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bigint[], $6::text[])";
    if timers.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = timers.iter().map(|(key, _)| *key).collect();
    keys.bound(INSERT)
        .bind(timers.iter().map(|(_, timer)| timer.armed_seq.0).collect::<Vec<_>>())
        .bind(timers.iter().map(|(_, timer)| timer.ordinal).collect::<Vec<_>>())
        .bind(timers.iter().map(|(_, timer)| timer.fire_at.as_millis()).collect::<Vec<_>>())
        .bind(timers.iter().map(|(_, timer)| timer.send.as_str()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Waits for a timer that is firing; the firing transaction waits for no lock, so there is no deadlock.
pub(crate) async fn delete_timers(
    connection: &mut PgConnection,
    timers: &[(&ExecutionKey, Seq)],
) -> PostgresResult<()> {
    const DELETE: &str = "
DELETE FROM timers t
USING unnest($1::text[], $2::text[], $3::bigint[]) AS k(tenant, execution_id, armed_seq)
WHERE t.tenant = k.tenant AND t.execution_id = k.execution_id AND t.armed_seq = k.armed_seq";
    if timers.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = timers.iter().map(|(key, _)| *key).collect();
    keys.bound(DELETE)
        .bind(timers.iter().map(|(_, seq)| seq.0).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Move executions (locked before) to their new state. Ending lifts the pause.
pub(crate) async fn update_executions(
    connection: &mut PgConnection,
    commits: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<()> {
    const UPDATE: &str = "
UPDATE executions x
SET seq = k.seq, state = k.state, phase = k.phase,
    snapshot = coalesce(k.snapshot, x.snapshot),
    snapshot_seq = CASE WHEN k.snapshot IS NULL THEN x.snapshot_seq ELSE k.seq END,
    paused_reason = CASE WHEN k.phase = 'active' THEN coalesce(x.paused_reason, k.pause) END,
    updated_at = k.updated_at,
    ended_at = CASE WHEN k.phase <> 'active' THEN coalesce(x.ended_at, k.updated_at) END,
    correlation = coalesce(k.correlation, x.correlation)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
            $9::text[])
    AS k(tenant, execution_id, seq, state, phase, snapshot, pause, updated_at, correlation)
WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id";
    let snapshots: Vec<Option<RawJson>> = commits
        .iter()
        .map(|commit| match commit.snapshot {
            SnapshotWrite::Write => Some(RawJson::from_value(&commit.state)),
            SnapshotWrite::Skip => None,
        })
        .collect();
    let pauses: Vec<_> = commits.iter().map(|commit| pause_of(commit)).collect();
    let times = commits.iter().zip(&pauses).map(|(commit, pause)| match pause {
        Some(_) => now.as_millis(),
        None => commit.state.at.as_millis(),
    });
    let keys: KeyColumns<'_> = commits.iter().map(|commit| &commit.execution).collect();
    keys.bound(UPDATE)
        .bind(commits.iter().map(|commit| commit.state.seq.0).collect::<Vec<_>>())
        .bind(commits.iter().map(|commit| commit.state.state.as_str()).collect::<Vec<_>>())
        .bind(commits.iter().map(|commit| commit.state.phase.as_str()).collect::<Vec<_>>())
        .bind(snapshots.iter().map(|text| text.as_ref().map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(pauses.iter().map(|pause| pause.map(decode::strip_nul)).collect::<Vec<_>>())
        .bind(times.collect::<Vec<_>>())
        .bind(commits.iter().map(|commit| correlation_of(commit)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// The correlation, from the last transition that sets one.
pub(crate) fn correlation_of(commit: &ExecutionCommit) -> Option<&str> {
    commit.transitions.iter().rev().find_map(|transition| transition.decision.correlation.as_deref())
}

/// An event that failed in its own commit pauses an execution that has not ended.
fn pause_of(commit: &ExecutionCommit) -> Option<&str> {
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

/// How many of the events that each commit decides are still undecided or deferred, in order. The executions'
/// locks keep that stable.
pub(crate) async fn count_open(
    connection: &mut PgConnection,
    batch: &[ExecutionCommit],
) -> PostgresResult<Vec<usize>> {
    const COUNT: &str = "
SELECT k.place, count(*) AS open
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[])
    AS k(tenant, execution_id, accept_no, event_id, place)
CROSS JOIN LATERAL (
    SELECT FROM mailbox m
    WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
      AND m.event_id = k.event_id
    OFFSET 0) m
GROUP BY k.place";
    let rows: Vec<_> = (0i64..)
        .zip(batch)
        .flat_map(|(place, commit)| commit.decided.iter().map(move |one| (place, &commit.execution, one)))
        .collect();
    let mut open = vec![0; batch.len()];
    if rows.is_empty() {
        return Ok(open);
    }
    let letters: LetterColumns<'_> = rows.iter().map(|(_, key, decided)| (*key, *decided)).collect();
    let counted = letters
        .bound(COUNT)
        .bind(rows.iter().map(|(place, ..)| *place).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    for row in &counted {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        if let Some(open) = open.get_mut(place) {
            *open = usize::try_from(row.try_get::<i64, _>("open")?).unwrap_or(0);
        }
    }
    Ok(open)
}

/// Events in mailboxes as four arrays.
#[derive(Debug, Default)]
pub(crate) struct LetterColumns<'a> {
    tenants: Vec<&'a str>,
    executions: Vec<&'a str>,
    accept_nos: Vec<i64>,
    event_ids: Vec<Uuid>,
}

impl<'a> FromIterator<(&'a ExecutionKey, &'a DecidedEvent)> for LetterColumns<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a ExecutionKey, &'a DecidedEvent)>>(letters: I) -> Self {
        let mut columns = Self::default();
        for (key, decided) in letters {
            columns.tenants.push(key.tenant.as_str());
            columns.executions.push(key.execution.as_str());
            columns.accept_nos.push(decided.accept_no.0);
            columns.event_ids.push(decided.event_id.0);
        }
        columns
    }
}

impl LetterColumns<'_> {
    fn is_empty(&self) -> bool {
        self.event_ids.is_empty()
    }

    /// As `$1` to `$4`.
    fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        self.bind_to(sqlx::query(sql))
    }

    /// As the next four parameters.
    pub(crate) fn bind_to<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query.bind(&self.tenants).bind(&self.executions).bind(&self.accept_nos).bind(&self.event_ids)
    }
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
    const TAKE: &str = "
DELETE FROM mailbox m
USING unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) AS k(tenant, execution_id, accept_no, event_id)
WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
  AND m.event_id = k.event_id";
    const DEFER: &str = "
UPDATE mailbox m SET deferred = TRUE
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) AS k(tenant, execution_id, accept_no, event_id)
WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
  AND m.event_id = k.event_id";
    let all = || {
        commits.iter().flat_map(|commit| commit.decided.iter().map(|decided| (&commit.execution, decided)))
    };
    let is_deferred = |decided: &DecidedEvent| match &decided.verdict {
        EventVerdict::Deferred => true,
        EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } => false,
    };
    let (deferred, taken): (Vec<_>, Vec<_>) = all().partition(|(_, decided)| is_deferred(decided));
    let deferred: LetterColumns<'_> = deferred.into_iter().collect();
    if !deferred.is_empty() {
        deferred.bound(DEFER).execute(&mut *connection).await?;
    }
    let letters: LetterColumns<'_> = taken.iter().copied().collect();
    if !letters.is_empty() {
        letters.bound(TAKE).execute(&mut *connection).await?;
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
