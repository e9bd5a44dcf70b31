//! Fast path of settling, one statement for almost every outcome: the end of an action that is alone, which
//! is the only one of its transition or one of many independent ones. It has succeeded, or failed with an
//! event that handles the failure; the event that it emits comes with it.
//!
//! No other row depends on such an action, so the event needs no lock: no concurrent settlement has to see
//! it, and that the event is completed follows from the action itself. The rows are changed in the order of
//! their keys, each at the `ctid` where it was just found; the fence is in that change, so an action that was
//! leased again in that moment is unchanged. Everything else (other outcomes, related actions, lost leases)
//! takes the careful path ([`crate::settle`]).

use millstream_model::mutation::{self, Mutation};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{AfterFailure, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::event_log::EventSubmission;
use millstream_store::status_text;
use sqlx::Row;
use uuid::Uuid;

use crate::action_rows::ActionColumns;
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;

const SETTLE: &str = status_text!("
WITH held AS MATERIALIZED (
    SELECT k.*, a.row_place
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::bigint[],
                $8::uuid[], $9::text[], $10::text[], $11::text[], $12::text[], $14::text[])
        AS k(tenant, execution_id, seq, action, epoch, result, place, event_id, name, payload, actor, traceparent,
             error)
    CROSS JOIN LATERAL (
        SELECT a.ctid AS row_place FROM actions a
        WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
          AND a.alone AND CASE WHEN a.status IN ({FENCED_ACTIONS}) THEN a.epoch END = k.epoch
        OFFSET 0) a
), settled AS (
    UPDATE actions a
    SET status = CASE WHEN h.result IS NULL THEN 'failed' ELSE 'succeeded' END, due_at = NULL,
        result = coalesce(h.result, a.result), error = h.error, handled = h.result IS NULL, closing = FALSE,
        settled_at = $13
    FROM held h
    WHERE a.ctid = h.row_place AND CASE WHEN a.status IN ({FENCED_ACTIONS}) THEN a.epoch END = h.epoch
    RETURNING h.*
), accepted AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, actor, traceparent, created_at)
    SELECT h.tenant, h.event_id, h.execution_id, nextval('accept_no'), h.name, h.payload, h.actor, h.traceparent,
           $13
    FROM (SELECT * FROM settled WHERE event_id IS NOT NULL ORDER BY place) h
    RETURNING tenant, execution_id, accept_no, event_id, octet_length(payload) AS bytes
), posted AS (
    INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
    SELECT a.tenant, a.execution_id, a.accept_no, a.event_id, a.bytes, FALSE, $13 FROM accepted a
)
SELECT coalesce(array_agg(place), '{}') FROM settled");

/// An end that is recorded here, if its action is alone.
struct PlainEnd<'a> {
    place: usize,
    settlement: &'a Settlement,
    /// The result, or the error.
    end: Result<&'a RawJson, &'a RawJson>,
    emit: Option<&'a EventSubmission>,
}

/// One verdict per settlement, in order; `None` where nothing was recorded here.
pub(crate) async fn settle(
    warm: &WarmConnections,
    batch: &[Settlement],
    now: Timestamp,
) -> PostgresResult<Vec<Option<SettleVerdict>>> {
    let mut recorded = vec![None; batch.len()];
    if mutation::is_active(Mutation::AnyToken) {
        return Ok(recorded);
    }
    // A lease that occurs twice is stale the second time, whatever its outcomes are.
    let mut firsts: Vec<(usize, &Settlement)> = batch.iter().enumerate().collect();
    firsts.sort_by(|(_, one), (_, other)| one.lease.cmp(&other.lease));
    firsts.dedup_by(|(_, later), (_, first)| later.lease == first.lease);
    let plain: Vec<PlainEnd<'_>> = firsts
        .into_iter()
        .filter_map(|(place, settlement)| match &settlement.outcome {
            SettleOutcome::Succeeded { result, emit } => {
                Some(PlainEnd { place, settlement, end: Ok(result), emit: emit.as_deref() })
            }
            SettleOutcome::Failed { error, then: AfterFailure::Emit(emit) } => {
                Some(PlainEnd { place, settlement, end: Err(error), emit: Some(emit) })
            }
            SettleOutcome::Failed { then: AfterFailure::Compensate | AfterFailure::Incident(_), .. }
            | SettleOutcome::Retry { .. }
            | SettleOutcome::Postponed { .. }
            | SettleOutcome::Awaiting { .. } => None,
        })
        .collect();
    if plain.is_empty() {
        return Ok(recorded);
    }
    let keys: ActionColumns<'_> = plain.iter().map(|one| &one.settlement.lease.key).collect();
    let emits = || plain.iter().map(|one| one.emit);
    let settle = keys
        .bound(SETTLE)
        .bind(plain.iter().map(|one| one.settlement.lease.epoch.0).collect::<Vec<_>>())
        .bind(plain.iter().map(|one| Some(one.end.ok()?.as_str())).collect::<Vec<_>>())
        .bind(plain.iter().map(|one| i64::try_from(one.place).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .bind(emits().map(|emit| Some(emit?.event_id.0)).collect::<Vec<Option<Uuid>>>())
        .bind(emits().map(|emit| Some(emit?.name.as_str())).collect::<Vec<_>>())
        .bind(emits().map(|emit| Some(emit?.payload.as_str())).collect::<Vec<_>>())
        .bind(emits().map(|emit| emit?.actor.as_deref()).collect::<Vec<_>>())
        .bind(emits().map(|emit| emit?.traceparent.as_deref()).collect::<Vec<_>>())
        .bind(now.as_millis())
        .bind(plain.iter().map(|one| Some(one.end.err()?.as_str())).collect::<Vec<_>>());
    for place in warm.fetch_row(settle).await?.try_get::<Vec<i64>, _>(0)? {
        if let Some(one) = usize::try_from(place).ok().and_then(|place| recorded.get_mut(place)) {
            *one = Some(SettleVerdict::Recorded { event: EventStatus::Completed });
        }
    }
    Ok(recorded)
}
