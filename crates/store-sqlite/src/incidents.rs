//! Views of incidents: single ones, lists, groups by fingerprint; and the entry point of decisions about
//! them.

use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ExecutionId, IncidentId, Name, TenantId};
use millstream_model::status::IncidentResolution;
use millstream_model::time::Timestamp;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentStatus, IncidentView, Incidents,
    ResolveVerdict, ResolvedView,
};
use millstream_store::intervention::DecisionRecord;
use millstream_store::{StoreError, StoreResult};

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::incident_decisions::resolve_incident;
use crate::param;

#[async_trait::async_trait]
impl Incidents for SqliteStore {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read_transaction(move |connection| {
            let is_open = filter.status.map(|status| match status {
                IncidentStatus::Open => true,
                IncidentStatus::Resolved => false,
            });
            let mut list = connection.prepare_cached(list_statement(&filter))?;
            let mut rows = list.query((
                tenant.as_str(),
                after.unwrap_or(i64::MAX),
                filter.fingerprint.as_deref(),
                filter.execution.as_ref().map(ExecutionId::as_str),
                filter.definition.as_ref().map(Name::as_str),
                is_open,
                param::limit(limit),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.extend(readable_row(incident_view(SqliteFields(row)))?);
            }
            Ok(views)
        })
        .await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        const GROUPS: &str = "
            SELECT i.*, g.members, g.first_seen, g.last_seen
            FROM (SELECT max(id) AS newest, count(*) AS members, min(opened_at) AS first_seen,
                         max(opened_at) AS last_seen
                  FROM incidents WHERE tenant = ?1 AND resolution IS NULL
                  GROUP BY fingerprint ORDER BY count(*) DESC, fingerprint LIMIT ?2) AS g
            CROSS JOIN incidents AS i ON i.id = g.newest
            ORDER BY g.members DESC, i.fingerprint";
        let tenant = tenant.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(GROUPS)?;
            let mut rows = read.query((tenant.as_str(), param::limit(limit)))?;
            let mut groups = Vec::new();
            while let Some(row) = rows.next()? {
                groups.extend(readable_row(incident_group(SqliteFields(row)))?);
            }
            Ok(groups)
        })
        .await
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        const INCIDENT: &str = "SELECT * FROM incidents WHERE tenant = ?1 AND incident_id = ?2";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(INCIDENT)?;
            keys.iter()
                .map(|(tenant, id)| {
                    let mut rows = read.query((tenant.as_str(), id.0.as_bytes()))?;
                    rows.next()?.map(|row| incident_view(SqliteFields(row))).transpose()
                })
                .collect()
        })
        .await
    }

    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (tenant, batch, by) = (tenant.clone(), batch.to_vec(), by.clone());
        self.write_transaction(move |connection| {
            batch.iter().map(|(id, how)| resolve_incident(connection, &tenant, *id, how, &by, now)).collect()
        })
        .await
    }
}

/// A statement per index: a condition behind `?n IS NULL OR` uses no index.
fn list_statement(filter: &IncidentFilter) -> &'static str {
    const OF_EXECUTION: &str = "
        SELECT * FROM incidents
        WHERE tenant = ?1 AND execution_id = ?4 AND id < ?2
          AND (?3 IS NULL OR fingerprint = ?3) AND (?5 IS NULL OR definition = ?5)
          AND (?6 IS NULL OR (resolution IS NULL) = ?6)
        ORDER BY id DESC LIMIT ?7";
    const OPEN_OF_FINGERPRINT: &str = "
        SELECT * FROM incidents
        WHERE tenant = ?1 AND fingerprint = ?3 AND resolution IS NULL AND id < ?2
          AND (?5 IS NULL OR definition = ?5)
        ORDER BY id DESC LIMIT ?7";
    const OPEN: &str = "
        SELECT * FROM incidents
        WHERE tenant = ?1 AND resolution IS NULL AND id < ?2 AND (?5 IS NULL OR definition = ?5)
        ORDER BY id DESC LIMIT ?7";
    const ALL: &str = "
        SELECT * FROM incidents
        WHERE tenant = ?1 AND id < ?2
          AND (?3 IS NULL OR fingerprint = ?3) AND (?5 IS NULL OR definition = ?5)
          AND (?6 IS NULL OR (resolution IS NULL) = ?6)
        ORDER BY id DESC LIMIT ?7";
    match (&filter.execution, filter.status, &filter.fingerprint) {
        (Some(_), _, _) => OF_EXECUTION,
        (None, Some(IncidentStatus::Open), Some(_)) => OPEN_OF_FINGERPRINT,
        (None, Some(IncidentStatus::Open), None) => OPEN,
        (None, Some(IncidentStatus::Resolved) | None, _) => ALL,
    }
}

/// An undecodable incident does not hide the others.
fn readable_row<T>(decoded: SqliteResult<T>) -> SqliteResult<Option<T>> {
    match decoded.map_err(StoreError::from) {
        Ok(view) => Ok(Some(view)),
        Err(StoreError::Corrupt(why)) => {
            tracing::error!(error = why, "an incident cannot be decoded");
            Ok(None)
        }
        Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => Err(error.into()),
    }
}

fn incident_group(row: SqliteFields<'_>) -> SqliteResult<IncidentGroupView> {
    let sample = incident_view(row)?;
    Ok(IncidentGroupView {
        fingerprint: sample.fingerprint.clone(),
        definition: sample.definition.name.clone(),
        action: sample.action.as_ref().map(|key| key.action.clone()),
        class: sample.class.clone(),
        count: row.count("members")?,
        first_seen: row.time("first_seen")?,
        last_seen: row.time("last_seen")?,
        sample,
    })
}

fn incident_view(row: SqliteFields<'_>) -> SqliteResult<IncidentView> {
    let resolution = row.opt_word("resolution", IncidentResolution::parse)?;
    let resolved = resolution.map(|resolution| {
        SqliteResult::Ok(ResolvedView {
            resolution,
            actor: row.opt_text("resolved_by")?,
            reason: row.opt_text("resolved_why")?,
            at: row.time("resolved_at")?,
        })
    });
    Ok(IncidentView {
        id: row.incident_id("incident_id")?,
        position: row.int("id")?,
        execution: row.execution()?,
        definition: row.definition()?,
        event_id: row.event_id("event_id")?,
        action: row.opt_action_key()?,
        class: ErrorClass::named(row.id("class")?),
        fingerprint: row.text("fingerprint")?.to_owned(),
        reason: row.text("reason")?.to_owned(),
        opened_at: row.time("opened_at")?,
        resolved: resolved.transpose()?,
    })
}
