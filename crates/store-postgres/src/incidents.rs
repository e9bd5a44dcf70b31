//! Views of incidents. The effects of a decision are in [`crate::incident_decisions`].

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_model::id::{IncidentId, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentStatus, IncidentView, Incidents,
    ResolveVerdict,
};
use millstream_store::intervention::DecisionRecord;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::{decode, incident_rows};

#[async_trait]
impl Incidents for PostgresStore {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        self.without_retries(read_incident_list(&self.pool, tenant, filter, after, limit)).await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        self.without_retries(read_groups(&self.pool, tenant, limit)).await
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        self.without_retries(async {
            let asked = keys.iter().map(|(tenant, id)| (tenant, *id));
            let found = incident_rows::read(&self.pool, asked).await?;
            let found: HashMap<_, _> =
                found.into_iter().map(|view| ((view.execution.tenant.clone(), view.id), view)).collect();
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
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
        self.with_retries(|| self.resolve_once(tenant, batch, by, now)).await
    }
}

/// Each statement has an index for its first conditions; the rest are filters.
async fn read_incident_list(
    pool: &PgPool,
    tenant: &TenantId,
    filter: &IncidentFilter,
    after: Option<i64>,
    limit: usize,
) -> PostgresResult<Vec<IncidentView>> {
    const OF_EXECUTION: &str = "
SELECT i.* FROM incidents i
WHERE i.execution_id = $5 AND i.tenant = $1 AND i.id < $2
  AND ($3::boolean IS NULL OR $3 = (i.resolution IS NULL))
  AND ($6::text IS NULL OR i.fingerprint = $6) AND ($7::text IS NULL OR i.definition = $7)
ORDER BY i.id DESC LIMIT $4";
    const OPEN_OF_KIND: &str = "
SELECT i.* FROM incidents i
WHERE i.resolution IS NULL AND i.tenant = $1 AND i.fingerprint = $6 AND i.id < $2
  AND $3::boolean AND $5::text IS NULL AND ($7::text IS NULL OR i.definition = $7)
ORDER BY i.id DESC LIMIT $4";
    const OPEN: &str = "
SELECT i.* FROM incidents i
WHERE i.resolution IS NULL AND i.tenant = $1 AND i.id < $2
  AND $3::boolean AND $5::text IS NULL AND $6::text IS NULL AND ($7::text IS NULL OR i.definition = $7)
ORDER BY i.id DESC LIMIT $4";
    const ALL: &str = "
SELECT i.* FROM incidents i
WHERE i.tenant || '' = $1 AND i.id < $2
  AND ($3::boolean IS NULL OR $3 = (i.resolution IS NULL)) AND $5::text IS NULL
  AND ($6::text IS NULL OR i.fingerprint = $6) AND ($7::text IS NULL OR i.definition = $7)
ORDER BY i.id DESC LIMIT $4";
    let sql = match (&filter.execution, filter.status, &filter.fingerprint) {
        (Some(_), None | Some(IncidentStatus::Open | IncidentStatus::Resolved), _) => OF_EXECUTION,
        (None, Some(IncidentStatus::Open), Some(_)) => OPEN_OF_KIND,
        (None, Some(IncidentStatus::Open), None) => OPEN,
        (None, None | Some(IncidentStatus::Resolved), _) => ALL,
    };
    let open = filter.status.map(|status| match status {
        IncidentStatus::Open => true,
        IncidentStatus::Resolved => false,
    });
    let rows = sqlx::query(sql)
        .bind(tenant.as_str())
        .bind(after.unwrap_or(i64::MAX))
        .bind(open)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(filter.execution.as_ref().map(|id| id.as_str()))
        .bind(filter.fingerprint.as_deref())
        .bind(filter.definition.as_ref().map(|name| name.as_str()))
        .fetch_all(pool)
        .await?;
    Ok(rows.iter().filter_map(|row| readable_row(row, incident_rows::decode_incident)).collect())
}

/// An undecodable incident becomes a log line; it does not hide the others.
fn readable_row<T>(row: &PgRow, view: fn(&PgRow) -> PostgresResult<T>) -> Option<T> {
    let error = match view(row) {
        Ok(view) => return Some(view),
        Err(failure) => failure.into_store_error(),
    };
    let position: i64 = row.try_get("id").unwrap_or_default();
    tracing::error!(incident.position = position, %error, "an incident cannot be listed");
    None
}

async fn read_groups(
    pool: &PgPool,
    tenant: &TenantId,
    limit: usize,
) -> PostgresResult<Vec<IncidentGroupView>> {
    const READ: &str = "
SELECT i.*, g.count, g.first_seen, g.last_seen
FROM (SELECT o.fingerprint, count(*) AS count, min(o.opened_at) AS first_seen, max(o.opened_at) AS last_seen,
             max(o.id) AS newest
      FROM incidents o
      WHERE o.tenant = $1 AND o.resolution IS NULL
      GROUP BY o.fingerprint
      ORDER BY count(*) DESC, o.fingerprint
      LIMIT $2) g
CROSS JOIN LATERAL (SELECT i.* FROM incidents i WHERE i.id = g.newest OFFSET 0) i
ORDER BY g.count DESC, i.fingerprint";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = sqlx::query(READ).bind(tenant.as_str()).bind(limit).fetch_all(pool).await?;
    Ok(rows.iter().filter_map(|row| readable_row(row, decode_group)).collect())
}

fn decode_group(row: &PgRow) -> PostgresResult<IncidentGroupView> {
    let sample = incident_rows::decode_incident(row)?;
    Ok(IncidentGroupView {
        fingerprint: sample.fingerprint.clone(),
        definition: sample.definition.name.clone(),
        action: sample.action.as_ref().map(|key| key.action.clone()),
        class: sample.class.clone(),
        count: row.try_get::<i64, _>("count")?.unsigned_abs(),
        first_seen: decode::time(row, "first_seen")?,
        last_seen: decode::time(row, "last_seen")?,
        sample,
    })
}
