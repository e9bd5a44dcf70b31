//! Rows of incidents: opened in the transaction of the failure, resolved once. Decisions about them are in
//! [`crate::incident_decisions`].

use millstream_model::id::{ActionKey, DefinitionRef, EventId, ExecutionKey};
use millstream_model::incident::{NewIncident, incident_fingerprint};
use millstream_model::status::IncidentResolution;
use millstream_model::time::Timestamp;
use millstream_store::intervention::DecisionRecord;
use rusqlite::{Connection, params};

use crate::errors::SqliteResult;
use crate::param::{MessageText, message_text};

/// An incident with its event and action.
pub(crate) struct IncidentOpening<'a> {
    pub(crate) execution: &'a ExecutionKey,
    pub(crate) definition: &'a DefinitionRef,
    pub(crate) event_id: EventId,
    pub(crate) action: Option<&'a ActionKey>,
    pub(crate) incident: &'a NewIncident,
}

pub(crate) fn open_incident(
    connection: &Connection,
    opening: &IncidentOpening<'_>,
    now: Timestamp,
) -> SqliteResult<()> {
    const OPEN_INCIDENT: &str = "
        INSERT INTO incidents (tenant, incident_id, execution_id, definition, version, event_id, seq, action,
                               class, fingerprint, reason, opened_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let IncidentOpening { execution, definition, event_id, action, incident } = opening;
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
        incident_fingerprint(&definition.name, action_name, &incident.class),
        MessageText(&incident.reason),
        now.as_millis(),
    ])?;
    Ok(())
}

/// An ended execution has no open incidents.
pub(crate) fn end_incidents(
    connection: &Connection,
    execution: &ExecutionKey,
    now: Timestamp,
) -> SqliteResult<()> {
    const END_INCIDENTS: &str = "
        UPDATE incidents SET resolution = ?3, resolved_at = ?4
        WHERE tenant = ?1 AND execution_id = ?2 AND resolution IS NULL";
    connection.prepare_cached(END_INCIDENTS)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        IncidentResolution::Ended.as_str(),
        now.as_millis(),
    ))?;
    Ok(())
}

/// The event was retried as a whole.
pub(crate) fn resolve_of_event(
    connection: &Connection,
    execution: &ExecutionKey,
    event: EventId,
    by: &DecisionRecord,
    now: Timestamp,
) -> SqliteResult<()> {
    const RESOLVE_OF_EVENT: &str = "
        UPDATE incidents SET resolution = ?4, resolved_by = ?5, resolved_why = ?6, resolved_at = ?7
        WHERE tenant = ?1 AND execution_id = ?2 AND event_id = ?3 AND resolution IS NULL";
    connection.prepare_cached(RESOLVE_OF_EVENT)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        event.0.as_bytes(),
        IncidentResolution::Retry.as_str(),
        message_text(by.actor.as_deref()),
        message_text(by.reason.as_deref()),
        now.as_millis(),
    ))?;
    Ok(())
}
