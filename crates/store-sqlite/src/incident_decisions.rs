//! Decisions about incidents: each one is resolved once, together with the effects of the decision.

use millstream_model::id::{ActionKey, EventId, IncidentId, TenantId};
use millstream_model::status::{ActionStatus, EventStatus, IncidentResolution};
use millstream_model::time::Timestamp;
use millstream_store::action_store::FailureHandling;
use millstream_store::event_log::EventSubmission;
use millstream_store::incidents::{IncidentDecision, ResolveVerdict};
use millstream_store::intervention::DecisionRecord;
use millstream_store::reopening::choose_reopened;
use rusqlite::Connection;

use crate::accept::accept_emitted;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::intervention::{
    StuckEvent, find_event, read_settled, record_decision, reopen_action, reopen_event, resume_execution,
    return_to_mailbox, wait_for_others,
};
use crate::param::{action_columns, message_text};
use crate::settle::write_followed;
use crate::settle_rows::{free_action, read_touched, succeed_action};

/// Carry out a decision about one incident.
pub(crate) fn resolve_incident(
    connection: &Connection,
    tenant: &TenantId,
    id: IncidentId,
    how: &IncidentDecision,
    by: &DecisionRecord,
    now: Timestamp,
) -> SqliteResult<ResolveVerdict> {
    let Some(incident) = find_incident(connection, tenant, id)? else { return Ok(ResolveVerdict::NotFound) };
    if let Some(resolution) = incident.resolution {
        return Ok(ResolveVerdict::Already { resolution });
    }
    let Some(event) = find_event(connection, tenant, incident.event_id)? else {
        return Ok(ResolveVerdict::NotFound);
    };
    mark_resolved(connection, incident.place, how.resolution(), by, now)?;
    accept_emitted(connection, emitted_event(how), now)?;
    let execution = event.execution.clone();
    record_decision(connection, &execution, Some(incident.event_id), how.resolution().as_str(), by, now)?;
    match how {
        IncidentDecision::End { .. } => return Ok(ResolveVerdict::Done { execution }),
        IncidentDecision::Retry | IncidentDecision::RetryWith { .. } | IncidentDecision::Skip { .. } => {}
    }
    match &incident.action {
        Some(action) => resolve_action(connection, action, &event, how, now)?,
        None => resolve_event(connection, &event, how)?,
    }
    resume_execution(connection, &execution, now)?;
    Ok(ResolveVerdict::Done { execution })
}

fn emitted_event(how: &IncidentDecision) -> Option<&EventSubmission> {
    match how {
        IncidentDecision::Retry | IncidentDecision::RetryWith { .. } => None,
        IncidentDecision::Skip { emit, .. } => emit.as_deref(),
        IncidentDecision::End { event, .. } => Some(event),
    }
}

struct StoredIncident {
    place: i64,
    event_id: EventId,
    action: Option<ActionKey>,
    resolution: Option<IncidentResolution>,
}

fn find_incident(
    connection: &Connection,
    tenant: &TenantId,
    id: IncidentId,
) -> SqliteResult<Option<StoredIncident>> {
    const FIND_INCIDENT: &str = "
        SELECT id, tenant, execution_id, event_id, seq, action, resolution FROM incidents
        WHERE tenant = ?1 AND incident_id = ?2";
    let mut find = connection.prepare_cached(FIND_INCIDENT)?;
    let mut rows = find.query((tenant.as_str(), id.0.as_bytes()))?;
    let found = rows.next()?.map(|row| {
        let row = SqliteFields(row);
        Ok(StoredIncident {
            place: row.int("id")?,
            event_id: row.event_id("event_id")?,
            action: row.opt_action_key()?,
            resolution: row.opt_word("resolution", IncidentResolution::parse)?,
        })
    });
    found.transpose()
}

fn mark_resolved(
    connection: &Connection,
    place: i64,
    resolution: IncidentResolution,
    by: &DecisionRecord,
    now: Timestamp,
) -> SqliteResult<()> {
    const MARK_RESOLVED: &str = "
        UPDATE incidents SET resolution = ?2, resolved_by = ?3, resolved_why = ?4, resolved_at = ?5
        WHERE id = ?1";
    connection.prepare_cached(MARK_RESOLVED)?.execute((
        place,
        resolution.as_str(),
        message_text(by.actor.as_deref()),
        message_text(by.reason.as_deref()),
        now.as_millis(),
    ))?;
    Ok(())
}

/// A dead event becomes undecided, or is rejected.
fn resolve_event(connection: &Connection, event: &StuckEvent, how: &IncidentDecision) -> SqliteResult<()> {
    const REJECT_DEAD: &str = "UPDATE events SET verdict = 'rejected' WHERE accept_no = ?1";
    if event.status != EventStatus::Dead {
        return Ok(());
    }
    match how {
        IncidentDecision::Skip { .. } => {
            connection.prepare_cached(REJECT_DEAD)?.execute([event.accept_no.0])?;
        }
        IncidentDecision::Retry | IncidentDecision::RetryWith { .. } => {
            reopen_event(connection, event.accept_no)?;
            return_to_mailbox(connection, event.accept_no)?;
        }
        IncidentDecision::End { .. } => {}
    }
    Ok(())
}

/// The action, then the actions skipped only because of it, then its event.
fn resolve_action(
    connection: &Connection,
    key: &ActionKey,
    event: &StuckEvent,
    how: &IncidentDecision,
    now: Timestamp,
) -> SqliteResult<()> {
    let mut settled = read_settled(connection, &key.execution, key.seq)?;
    if settled.get(&key.action).is_none_or(|action| action.status != ActionStatus::Failed) {
        return Ok(());
    }
    for (name, action) in &mut settled {
        // This decision treats other failures as handled.
        action.handling =
            if *name == key.action { FailureHandling::Unhandled } else { FailureHandling::Handled };
    }
    match how {
        IncidentDecision::Retry => reopen_action(connection, key, None, now)?,
        IncidentDecision::RetryWith { input } => reopen_action(connection, key, Some(input), now)?,
        IncidentDecision::Skip { result, .. } => succeed_action(connection, key, result, now)?,
        IncidentDecision::End { .. } => {}
    }
    let of_transition = |action| ActionKey { execution: key.execution.clone(), seq: key.seq, action };
    for action in choose_reopened(&settled).waiting {
        wait_for_others(connection, &of_transition(action))?;
    }
    if let Some(mut touched) = read_touched(connection, key, None, &[])? {
        for freed in write_followed(connection, &touched.graph.propagate_outcomes(), of_transition, now)? {
            free_action(connection, &freed, now)?;
        }
    }
    if event.status == EventStatus::Failed && !is_any_lost(connection, key)? {
        reopen_event(connection, event.accept_no)?;
    }
    Ok(())
}

/// Whether another failure in the same transition is still unresolved.
fn is_any_lost(connection: &Connection, key: &ActionKey) -> SqliteResult<bool> {
    const IS_ANY_LOST: &str = "
        SELECT EXISTS (SELECT 1 FROM actions
                       WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3
                         AND status = 'failed' AND NOT handled)";
    let (tenant, execution, seq, _) = action_columns(key);
    let mut is_any = connection.prepare_cached(IS_ANY_LOST)?;
    Ok(is_any.query_row((tenant, execution, seq), |row| row.get(0))?)
}
