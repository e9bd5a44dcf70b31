//! Rows of incidents. Opening or resolving one holds the row of its execution: that is its lock.

use millstream_model::id::{ActionKey, DefinitionRef, EventId, ExecutionKey, IncidentId, TenantId};
use millstream_model::incident::{NewIncident, incident_fingerprint};
use millstream_model::status::IncidentResolution;
use millstream_model::time::Timestamp;
use millstream_store::incidents::{IncidentView, ResolvedView};
use millstream_store::intervention::DecisionRecord;
use sqlx::postgres::{PgExecutor, PgRow};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

/// An incident to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenedIncident<'a> {
    pub execution: &'a ExecutionKey,
    pub definition: &'a DefinitionRef,
    pub event_id: EventId,
    pub action: Option<&'a ActionKey>,
    pub incident: &'a NewIncident,
}

/// In the order of lists.
pub(crate) async fn open(
    connection: &mut PgConnection,
    incidents: &[OpenedIncident<'_>],
    now: Timestamp,
) -> PostgresResult<()> {
    const OPEN: &str = "
INSERT INTO incidents (tenant, execution_id, incident_id, definition, version, event_id, seq, action, class,
                       fingerprint, reason, opened_at)
SELECT k.tenant, k.execution_id, k.incident_id, k.definition, k.version, k.event_id, k.seq, k.action, k.class,
       k.fingerprint, k.reason, $12
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::integer[], $6::uuid[], $7::bigint[], $8::text[],
            $9::text[], $10::text[], $11::text[])
    WITH ORDINALITY AS k(tenant, execution_id, incident_id, definition, version, event_id, seq, action, class,
                         fingerprint, reason, ord)
ORDER BY k.ord";
    if incidents.is_empty() {
        return Ok(());
    }
    let each = || incidents.iter();
    let print = |one: &OpenedIncident<'_>| {
        incident_fingerprint(&one.definition.name, one.action.map(|key| &key.action), &one.incident.class)
    };
    let keys: KeyColumns<'_> = each().map(|one| one.execution).collect();
    keys.bound(OPEN)
        .bind(each().map(|one| one.incident.id.0).collect::<Vec<Uuid>>())
        .bind(each().map(|one| one.definition.name.as_str()).collect::<Vec<_>>())
        .bind(each().map(|one| one.definition.version).collect::<Vec<_>>())
        .bind(each().map(|one| one.event_id.0).collect::<Vec<Uuid>>())
        .bind(each().map(|one| Some(one.action?.seq.0)).collect::<Vec<_>>())
        .bind(each().map(|one| Some(one.action?.action.as_str())).collect::<Vec<_>>())
        .bind(each().map(|one| one.incident.class.as_str()).collect::<Vec<_>>())
        .bind(each().map(print).collect::<Vec<_>>())
        .bind(each().map(|one| decode::strip_nul(&one.incident.reason)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// Resolves the incidents of executions that end.
pub(crate) async fn resolve_of_ended(
    connection: &mut PgConnection,
    executions: &[&ExecutionKey],
    now: Timestamp,
) -> PostgresResult<()> {
    const END: &str = "
UPDATE incidents i SET resolution = 'ended', resolved_at = $3
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
WHERE i.tenant = k.tenant AND i.execution_id = k.execution_id AND i.resolution IS NULL";
    if executions.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = executions.iter().copied().collect();
    keys.bound(END).bind(now.as_millis()).execute(connection).await?;
    Ok(())
}

/// An event was retried as a whole.
pub(crate) async fn resolve_of_retried(
    connection: &mut PgConnection,
    execution: &ExecutionKey,
    event: EventId,
    by: &DecisionRecord,
    now: Timestamp,
) -> PostgresResult<()> {
    const RETRY: &str = "
UPDATE incidents
SET resolution = 'retry', resolved_by = $4, resolved_why = $5, resolved_at = $6
WHERE tenant = $1 AND execution_id = $2 AND event_id = $3 AND resolution IS NULL";
    sqlx::query(RETRY)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.0)
        .bind(by.actor.as_deref().map(decode::strip_nul))
        .bind(by.reason.as_deref().map(decode::strip_nul))
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn write_resolutions(
    connection: &mut PgConnection,
    tenant: &TenantId,
    resolved: &[(IncidentId, IncidentResolution)],
    by: &DecisionRecord,
    now: Timestamp,
) -> PostgresResult<()> {
    const RESOLVE: &str = "
UPDATE incidents i
SET resolution = k.resolution, resolved_by = $4, resolved_why = $5, resolved_at = $6
FROM unnest($2::uuid[], $3::text[]) AS k(incident_id, resolution)
WHERE i.tenant = $1 AND i.incident_id = k.incident_id";
    sqlx::query(RESOLVE)
        .bind(tenant.as_str())
        .bind(resolved.iter().map(|(id, _)| id.0).collect::<Vec<Uuid>>())
        .bind(resolved.iter().map(|(_, resolution)| resolution.as_str()).collect::<Vec<_>>())
        .bind(by.actor.as_deref().map(decode::strip_nul))
        .bind(by.reason.as_deref().map(decode::strip_nul))
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn read<'e>(
    executor: impl PgExecutor<'e>,
    keys: impl IntoIterator<Item = (&TenantId, IncidentId)>,
) -> PostgresResult<Vec<IncidentView>> {
    const READ: &str = "
SELECT i.*
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, incident_id)
CROSS JOIN LATERAL (
    SELECT i.* FROM incidents i WHERE i.tenant = k.tenant AND i.incident_id = k.incident_id OFFSET 0) i";
    let (tenants, ids): (Vec<&str>, Vec<Uuid>) =
        keys.into_iter().map(|(tenant, id)| (tenant.as_str(), id.0)).unzip();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(READ).bind(&tenants).bind(&ids).fetch_all(executor).await?;
    rows.iter().map(decode_incident).collect()
}

pub(crate) fn decode_incident(row: &PgRow) -> PostgresResult<IncidentView> {
    let execution = decode::execution_key(row)?;
    let action = match row.try_get::<Option<&str>, _>("action")? {
        Some(_) => Some(decode::action_key(row)?),
        None => None,
    };
    let resolved = match decode::parsed_option(row, "resolution")? {
        Some(resolution) => Some(ResolvedView {
            resolution,
            actor: row.try_get("resolved_by")?,
            reason: row.try_get("resolved_why")?,
            at: decode::time(row, "resolved_at")?,
        }),
        None => None,
    };
    Ok(IncidentView {
        id: IncidentId(row.try_get("incident_id")?),
        position: row.try_get("id")?,
        execution,
        definition: decode::definition_ref(row)?,
        event_id: decode::event_id(row)?,
        action,
        class: decode::parsed(row, "class")?,
        fingerprint: row.try_get("fingerprint")?,
        reason: row.try_get("reason")?,
        opened_at: decode::time(row, "opened_at")?,
        resolved,
    })
}
