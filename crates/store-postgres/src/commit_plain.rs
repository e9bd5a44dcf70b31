//! Fast path of committing, one statement for almost every batch: events that are applied, with their
//! transitions, timers and actions.
//!
//! All or nothing. Unless every execution is at the seq that its commit expects, nothing is written and the
//! careful path ([`crate::commit`]) gives the verdicts. Executions are changed first, in the order of their
//! keys, each at the `ctid` where it was just found: that is their lock. The fence is in that change: after
//! waiting for a concurrent transaction it is checked again against the new row version (a `ctid` alone would
//! not be checked again). An execution that has moved on in that moment, or an event that was decided without
//! moving its execution (a rejection), makes the statement fail as a whole, which rolls it back, and the
//! careful path decides as well.
//!
//! Rejections, deferrals, failures, cancellations, correlations, emitted events and graphs are left to the
//! careful path. (The commit of a graph carries hundreds of transitions, so a few more statements cost
//! little.) An execution that ends here has no open incident: while it has one it is paused.

use millstream_model::id::{ExecutionKey, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::{
    CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, OpenActions, SnapshotWrite,
};
use sqlx::Row;
use uuid::Uuid;

use crate::action_rows::{NewActionColumns, insert_new_actions};
use crate::commit::{commit_verdicts, take_ready_slots};
use crate::commit_rows::{self, LetterColumns};
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;

pub(crate) fn is_plain(commit: &ExecutionCommit) -> bool {
    let applied = |decided: &DecidedEvent| match &decided.verdict {
        EventVerdict::Applied { status, .. } => *status != EventStatus::Failed,
        EventVerdict::Rejected { .. } | EventVerdict::Deferred => false,
    };
    let keeps = match commit.open_actions {
        OpenActions::Keep => true,
        OpenActions::Cancel => false,
    };
    let correlates = commit_rows::correlation_of(commit).is_some();
    keeps
        && !correlates
        && !commit.transitions.is_empty()
        && commit.emitted.is_empty()
        && commit.graph.is_none()
        && commit.decided.iter().all(applied)
        && commit.actions.iter().all(|action| action.incident.is_none())
}

const COMMIT: &str = concat!(
    "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), wanted AS MATERIALIZED (
    SELECT k.*, x.*
    FROM unnest($24::text[], $25::text[], $26::bigint[], $27::bigint[], $28::text[], $29::text[], $30::text[],
                $31::bigint[])
        AS k(tenant, execution_id, expected, seq, state, phase, snapshot, updated_at)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place, x.seq AS stored_seq, x.paused_reason, x.phase AS stored_phase
        FROM executions x
        WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
        OFFSET 0) x
), fence AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE stored_seq = expected AND (paused_reason IS NULL OR stored_phase <> 'active'))
           = cardinality($24) AS holds
    FROM wanted
), moved AS (
    UPDATE executions x
    SET seq = w.seq, state = w.state, phase = w.phase,
        snapshot = coalesce(w.snapshot, x.snapshot),
        snapshot_seq = CASE WHEN w.snapshot IS NULL THEN x.snapshot_seq ELSE w.seq END,
        paused_reason = NULL,
        updated_at = w.updated_at,
        ended_at = CASE WHEN w.phase <> 'active' THEN coalesce(x.ended_at, w.updated_at) END
    FROM wanted w
    WHERE x.ctid = w.place AND x.seq = w.expected AND (x.paused_reason IS NULL OR x.phase <> 'active')
      AND (SELECT holds FROM fence)
    RETURNING 1
), won AS MATERIALIZED (
    SELECT count(*) = cardinality($24) AS all FROM moved
), letters AS MATERIALIZED (
    SELECT m.place
    FROM unnest($32::text[], $33::text[], $34::bigint[], $35::uuid[]) AS k(tenant, execution_id, accept_no, event_id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM mailbox m
        WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
          AND m.event_id = k.event_id
        OFFSET 0) m
    WHERE (SELECT won.all FROM won)
), taken AS (
    DELETE FROM mailbox m USING letters l WHERE m.ctid = l.place
    RETURNING 1
), applied AS (
    INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, worker_id, committed_at)
    SELECT k.*, $21, $23
    FROM unnest($36::text[], $37::text[], $38::bigint[], $39::uuid[], $40::text[], $41::bigint[], $42::text[])
        AS k(tenant, execution_id, seq, event_id, name, at, decision)
    WHERE (SELECT won.all FROM won)
), disarmed AS (
    DELETE FROM timers t
    USING unnest($43::text[], $44::text[], $45::bigint[]) AS k(tenant, execution_id, armed_seq)
    WHERE t.tenant = k.tenant AND t.execution_id = k.execution_id AND t.armed_seq = k.armed_seq
      AND (SELECT won.all FROM won)
), armed AS (
    INSERT INTO timers (tenant, execution_id, armed_seq, ordinal, fire_at, send)
    SELECT k.*
    FROM unnest($46::text[], $47::text[], $48::bigint[], $49::integer[], $50::bigint[], $51::text[])
        AS k(tenant, execution_id, armed_seq, ordinal, fire_at, send)
    WHERE (SELECT won.all FROM won)
), acting AS (",
    insert_new_actions!(),
    "
    WHERE (SELECT won.all FROM won)
)
SELECT fence.holds, clock.now,
       1 / CASE WHEN NOT fence.holds THEN 1
                WHEN NOT won.all THEN 0
                WHEN (SELECT count(*) FROM taken) <> cardinality($32) THEN 0
                ELSE 1 END AS complete
FROM fence, won, clock"
);

/// `None`, and nothing written, when a fence does not hold.
pub(crate) async fn commit(
    warm: &WarmConnections,
    worker: &WorkerId,
    batch: &[ExecutionCommit],
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<Option<Vec<CommitVerdict>>> {
    let rows = take_ready_slots(batch.iter(), grant);
    let mut sorted: Vec<&ExecutionCommit> = batch.iter().collect();
    sorted.sort_unstable_by(|one, other| one.execution.cmp(&other.execution));
    let actions = NewActionColumns::of(&rows);
    let heads = ExecutionHeads::of(&sorted);
    let letters: LetterColumns<'_> = with_keys(batch, |commit| &commit.decided).collect();
    let transitions: Vec<_> = with_keys(batch, |commit| &commit.transitions).collect();
    let decisions: Vec<RawJson> =
        transitions.iter().map(|(_, row)| RawJson::from_value(&row.decision)).collect();
    let disarmed: Vec<_> = with_keys(batch, |commit| &commit.cancelled_timers).collect();
    let armed: Vec<_> = with_keys(batch, |commit| &commit.timers).collect();

    let query = actions.bound(COMMIT, worker, grant, now);
    let query = query
        .bind(&heads.tenants)
        .bind(&heads.executions)
        .bind(&heads.expected)
        .bind(&heads.seqs)
        .bind(&heads.states)
        .bind(&heads.phases)
        .bind(heads.snapshots.iter().map(|text| text.as_ref().map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(&heads.times);
    let query = letters
        .bind_to(query)
        .bind(tenant_column(&transitions))
        .bind(execution_column(&transitions))
        .bind(transitions.iter().map(|(_, row)| row.seq.0).collect::<Vec<_>>())
        .bind(transitions.iter().map(|(_, row)| row.event_id.0).collect::<Vec<Uuid>>())
        .bind(transitions.iter().map(|(_, row)| row.name.as_str()).collect::<Vec<_>>())
        .bind(transitions.iter().map(|(_, row)| row.at.as_millis()).collect::<Vec<_>>())
        .bind(decisions.iter().map(RawJson::as_str).collect::<Vec<_>>())
        .bind(tenant_column(&disarmed))
        .bind(execution_column(&disarmed))
        .bind(disarmed.iter().map(|(_, seq)| seq.0).collect::<Vec<_>>())
        .bind(tenant_column(&armed))
        .bind(execution_column(&armed))
        .bind(armed.iter().map(|(_, timer)| timer.armed_seq.0).collect::<Vec<_>>())
        .bind(armed.iter().map(|(_, timer)| timer.ordinal).collect::<Vec<_>>())
        .bind(armed.iter().map(|(_, timer)| timer.fire_at.as_millis()).collect::<Vec<_>>())
        .bind(armed.iter().map(|(_, timer)| timer.send.as_str()).collect::<Vec<_>>());
    let row = match warm.fetch_row(query).await {
        Ok(row) => row,
        Err(failure) if failure.is_division_by_zero() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    if !row.try_get::<bool, _>("holds")? {
        return Ok(None);
    }
    let moment = Timestamp::from_millis(row.try_get("now")?);
    Ok(Some(commit_verdicts(batch.iter(), &rows, grant, moment, Vec::new())))
}

/// A list of each commit, flattened, each element with its execution.
fn with_keys<'a, T: 'a>(
    batch: &'a [ExecutionCommit],
    part: fn(&'a ExecutionCommit) -> &'a Vec<T>,
) -> impl Iterator<Item = (&'a ExecutionKey, &'a T)> {
    batch.iter().flat_map(move |commit| part(commit).iter().map(|one| (&commit.execution, one)))
}

fn tenant_column<'a, T>(rows: &[(&'a ExecutionKey, &T)]) -> Vec<&'a str> {
    rows.iter().map(|(key, _)| key.tenant.as_str()).collect()
}

fn execution_column<'a, T>(rows: &[(&'a ExecutionKey, &T)]) -> Vec<&'a str> {
    rows.iter().map(|(key, _)| key.execution.as_str()).collect()
}

/// The new rows of executions, one array per column.
struct ExecutionHeads<'a> {
    tenants: Vec<&'a str>,
    executions: Vec<&'a str>,
    expected: Vec<i64>,
    seqs: Vec<i64>,
    states: Vec<&'a str>,
    phases: Vec<&'static str>,
    snapshots: Vec<Option<RawJson>>,
    times: Vec<i64>,
}

impl<'a> ExecutionHeads<'a> {
    /// In the order of their keys, which is the order of the locks.
    fn of(batch: &[&'a ExecutionCommit]) -> Self {
        let snapshot = |commit: &ExecutionCommit| match commit.snapshot {
            SnapshotWrite::Write => Some(RawJson::from_value(&commit.state)),
            SnapshotWrite::Skip => None,
        };
        Self {
            tenants: batch.iter().map(|commit| commit.execution.tenant.as_str()).collect(),
            executions: batch.iter().map(|commit| commit.execution.execution.as_str()).collect(),
            expected: batch.iter().map(|commit| commit.expected.0).collect(),
            seqs: batch.iter().map(|commit| commit.state.seq.0).collect(),
            states: batch.iter().map(|commit| commit.state.state.as_str()).collect(),
            phases: batch.iter().map(|commit| commit.state.phase.as_str()).collect(),
            snapshots: batch.iter().map(|commit| snapshot(commit)).collect(),
            times: batch.iter().map(|commit| commit.state.at.as_millis()).collect(),
        }
    }
}
