//! Rows of incidents: opened in the transaction of the failure, resolved once, together with the effects of
//! the decision.

use millstream_core::id::{ActionKey, DefinitionRef, EventId, ExecutionKey, IncidentId, TenantId};
use millstream_core::incident::{NewIncident, fingerprint};
use millstream_core::status::{ActionStatus, EventStatus, Resolution};
use millstream_core::time::Timestamp;
use millstream_store::action_store::Handling;
use millstream_store::event_log::NewEvent;
use millstream_store::incidents::{Resolved, Resolving};
use millstream_store::intervention::Decision;
use millstream_store::reopening::reopened;
use rusqlite::{Connection, params};

use crate::accept::accept_emitted;
use crate::decode::Fields;
use crate::errors::Attempt;
use crate::intervention::{
    Found, find_event, read_settled, record, reopen_action, reopen_event, resume, wait_again, wait_for_others,
};
use crate::param::{Message, message};
use crate::settle::write_followed;
use crate::settle_rows::{free_action, place, read_touched, succeed_action};

/// An incident with its event and action.
pub(crate) struct Opening<'a> {
    pub(crate) execution: &'a ExecutionKey,
    pub(crate) definition: &'a DefinitionRef,
    pub(crate) event_id: EventId,
    pub(crate) action: Option<&'a ActionKey>,
    pub(crate) incident: &'a NewIncident,
}

pub(crate) fn open_incident(connection: &Connection, opening: &Opening<'_>, now: Timestamp) -> Attempt<()> {
    const OPEN_INCIDENT: &str = "
        INSERT INTO incidents (tenant, incident_id, execution_id, definition, version, event_id, seq, action,
                               class, fingerprint, reason, opened_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let Opening { execution, definition, event_id, action, incident } = opening;
    let action_name = action.map(|key| &key.action);
    connection.prepare_cached(OPEN_INCIDENT)?.execute(params![
        execution.tenant.as_str(),
        incident.id.0.as_bytes(),
        execution.execution.as_str(),
        definition.name.as_str(),
        definition.version,
        event_id.0.as_bytes(),
        action.map(|key| key.seq.0),
        action_name.map(|name| name.as_str()),
        incident.class.as_str(),
        fingerprint(&definition.name, action_name, &incident.class),
        Message(&incident.reason),
        now.as_millis(),
    ])?;
    Ok(())
}

/// An ended execution has no open incidents.
pub(crate) fn end_incidents(
    connection: &Connection,
    execution: &ExecutionKey,
    now: Timestamp,
) -> Attempt<()> {
    const END_INCIDENTS: &str = "
        UPDATE incidents SET resolution = ?3, resolved_at = ?4
        WHERE tenant = ?1 AND execution_id = ?2 AND resolution IS NULL";
    connection.prepare_cached(END_INCIDENTS)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        Resolution::Ended.as_str(),
        now.as_millis(),
    ))?;
    Ok(())
}

/// The event was retried as a whole.
pub(crate) fn resolve_of_event(
    connection: &Connection,
    execution: &ExecutionKey,
    event: EventId,
    by: &Decision,
    now: Timestamp,
) -> Attempt<()> {
    const RESOLVE_OF_EVENT: &str = "
        UPDATE incidents SET resolution = ?4, resolved_by = ?5, resolved_why = ?6, resolved_at = ?7
        WHERE tenant = ?1 AND execution_id = ?2 AND event_id = ?3 AND resolution IS NULL";
    connection.prepare_cached(RESOLVE_OF_EVENT)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        event.0.as_bytes(),
        Resolution::Retry.as_str(),
        message(by.actor.as_deref()),
        message(by.reason.as_deref()),
        now.as_millis(),
    ))?;
    Ok(())
}

/// Carry out a decision about one incident.
pub(crate) fn resolve_incident(
    connection: &Connection,
    tenant: &TenantId,
    id: IncidentId,
    how: &Resolving,
    by: &Decision,
    now: Timestamp,
) -> Attempt<Resolved> {
    let Some(incident) = find_incident(connection, tenant, id)? else { return Ok(Resolved::NotFound) };
    if let Some(resolution) = incident.resolution {
        return Ok(Resolved::Already { resolution });
    }
    let Some(event) = find_event(connection, tenant, incident.event_id)? else {
        return Ok(Resolved::NotFound);
    };
    mark_resolved(connection, incident.place, how.resolution(), by, now)?;
    accept_emitted(connection, emitted(how), now)?;
    let execution = event.execution.clone();
    record(connection, &execution, Some(incident.event_id), how.resolution().as_str(), by, now)?;
    match how {
        Resolving::End { .. } => return Ok(Resolved::Done { execution }),
        Resolving::Retry | Resolving::RetryWith { .. } | Resolving::Skip { .. } => {}
    }
    match &incident.action {
        Some(action) => resolve_action(connection, action, &event, how, now)?,
        None => resolve_event(connection, &event, how)?,
    }
    resume(connection, &execution, now)?;
    Ok(Resolved::Done { execution })
}

fn emitted(how: &Resolving) -> Option<&NewEvent> {
    match how {
        Resolving::Retry | Resolving::RetryWith { .. } => None,
        Resolving::Skip { emit, .. } => emit.as_deref(),
        Resolving::End { event, .. } => Some(event),
    }
}

struct Incident {
    place: i64,
    event_id: EventId,
    action: Option<ActionKey>,
    resolution: Option<Resolution>,
}

fn find_incident(connection: &Connection, tenant: &TenantId, id: IncidentId) -> Attempt<Option<Incident>> {
    const FIND_INCIDENT: &str = "
        SELECT id, tenant, execution_id, event_id, seq, action, resolution FROM incidents
        WHERE tenant = ?1 AND incident_id = ?2";
    let mut find = connection.prepare_cached(FIND_INCIDENT)?;
    let mut rows = find.query((tenant.as_str(), id.0.as_bytes()))?;
    let found = rows.next()?.map(|row| {
        let row = Fields(row);
        Ok(Incident {
            place: row.int("id")?,
            event_id: row.event_id("event_id")?,
            action: row.opt_action_key()?,
            resolution: row.opt_word("resolution", Resolution::parse)?,
        })
    });
    found.transpose()
}

fn mark_resolved(
    connection: &Connection,
    place: i64,
    resolution: Resolution,
    by: &Decision,
    now: Timestamp,
) -> Attempt<()> {
    const MARK_RESOLVED: &str = "
        UPDATE incidents SET resolution = ?2, resolved_by = ?3, resolved_why = ?4, resolved_at = ?5
        WHERE id = ?1";
    connection.prepare_cached(MARK_RESOLVED)?.execute((
        place,
        resolution.as_str(),
        message(by.actor.as_deref()),
        message(by.reason.as_deref()),
        now.as_millis(),
    ))?;
    Ok(())
}

/// A dead event becomes undecided, or is rejected.
fn resolve_event(connection: &Connection, event: &Found, how: &Resolving) -> Attempt<()> {
    const REJECT_DEAD: &str = "UPDATE events SET verdict = 'rejected' WHERE accept_no = ?1";
    if event.status != EventStatus::Dead {
        return Ok(());
    }
    match how {
        Resolving::Skip { .. } => {
            connection.prepare_cached(REJECT_DEAD)?.execute([event.accept_no.0])?;
        }
        Resolving::Retry | Resolving::RetryWith { .. } => {
            reopen_event(connection, event.accept_no)?;
            wait_again(connection, event.accept_no)?;
        }
        Resolving::End { .. } => {}
    }
    Ok(())
}

/// The action, then the actions skipped only because of it, then its event.
fn resolve_action(
    connection: &Connection,
    key: &ActionKey,
    event: &Found,
    how: &Resolving,
    now: Timestamp,
) -> Attempt<()> {
    let mut settled = read_settled(connection, &key.execution, key.seq)?;
    if settled.get(&key.action).is_none_or(|action| action.status != ActionStatus::Failed) {
        return Ok(());
    }
    for (name, action) in &mut settled {
        // This decision treats other failures as handled.
        action.handling = if *name == key.action { Handling::Unhandled } else { Handling::Handled };
    }
    match how {
        Resolving::Retry => reopen_action(connection, key, None, now)?,
        Resolving::RetryWith { input } => reopen_action(connection, key, Some(input), now)?,
        Resolving::Skip { result, .. } => succeed_action(connection, key, result, now)?,
        Resolving::End { .. } => {}
    }
    let of_transition = |action| ActionKey { execution: key.execution.clone(), seq: key.seq, action };
    for action in reopened(&settled).waiting {
        wait_for_others(connection, &of_transition(action))?;
    }
    if let Some(mut touched) = read_touched(connection, key, None, &[])? {
        for freed in write_followed(connection, &touched.graph.follow(), of_transition, now)? {
            free_action(connection, &freed, now)?;
        }
    }
    if event.status == EventStatus::Failed && !is_any_lost(connection, key)? {
        reopen_event(connection, event.accept_no)?;
    }
    Ok(())
}

/// Whether another failure in the same transition is still unresolved.
fn is_any_lost(connection: &Connection, key: &ActionKey) -> Attempt<bool> {
    const IS_ANY_LOST: &str = "
        SELECT EXISTS (SELECT 1 FROM actions
                       WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3
                         AND status = 'failed' AND NOT handled)";
    let (tenant, execution, seq, _) = place(key);
    let mut is_any = connection.prepare_cached(IS_ANY_LOST)?;
    Ok(is_any.query_row((tenant, execution, seq), |row| row.get(0))?)
}
