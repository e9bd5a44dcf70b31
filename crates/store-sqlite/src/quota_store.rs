//! Quotas of tenants (rate limits, capacity limits), and their usage.

use millstream_model::id::TenantId;
use millstream_model::quota::{CountedQuota, QuotaSet};
use millstream_model::time::Timestamp;
use millstream_store::quota_store::{QuotaRevision, QuotaRows, QuotaStore, UsageQuestion};
use millstream_store::{StoreError, StoreResult};
use rusqlite::OptionalExtension;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;

#[async_trait::async_trait]
impl QuotaStore for SqliteStore {
    async fn put_quota(&self, tenant: &TenantId, quota: &QuotaSet, now: Timestamp) -> StoreResult<()> {
        const RAISE: &str = "UPDATE quota_revision SET revision = revision + 1";
        const PUT: &str = "
            INSERT INTO tenant_quotas (tenant, quota, updated_at) VALUES (?1, ?2, ?3)
            ON CONFLICT (tenant) DO UPDATE SET quota = excluded.quota, updated_at = excluded.updated_at";
        let (tenant, quota) = (tenant.clone(), quota.to_json().to_string());
        self.write_transaction(move |connection| {
            connection.prepare_cached(RAISE)?.execute(())?;
            connection.prepare_cached(PUT)?.execute((tenant.as_str(), &quota, now.as_millis()))?;
            Ok(())
        })
        .await
    }

    async fn quota_of(&self, tenant: &TenantId) -> StoreResult<Option<QuotaSet>> {
        const FIND: &str = "SELECT quota FROM tenant_quotas WHERE tenant = ?1";
        let tenant = tenant.clone();
        self.read_transaction(move |connection| {
            let mut find = connection.prepare_cached(FIND)?;
            let text: Option<String> = find.query_row([tenant.as_str()], |row| row.get(0)).optional()?;
            text.map(|text| quota_set(&text)).transpose()
        })
        .await
    }

    async fn quotas_after(&self, known: QuotaRevision) -> StoreResult<Option<QuotaRows>> {
        const READ: &str = "
            SELECT r.revision, q.tenant, q.quota FROM quota_revision r LEFT JOIN tenant_quotas q ON TRUE
            WHERE r.revision <> ?1 ORDER BY q.tenant";
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(READ)?;
            let mut rows = read.query([known.0])?;
            let mut found: Option<QuotaRows> = None;
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let revision = QuotaRevision(row.int("revision")?);
                let found = found.get_or_insert_with(|| QuotaRows { revision, rows: Vec::new() });
                if let Some(text) = row.opt_str("quota")? {
                    found.rows.push((row.id("tenant")?, quota_set(text)?));
                }
            }
            Ok(found)
        })
        .await
    }

    async fn count_usage(&self, questions: &[UsageQuestion]) -> StoreResult<Vec<u64>> {
        let questions = questions.to_vec();
        self.read_transaction(move |connection| {
            let count = |question: &UsageQuestion| {
                let limit = i64::try_from(question.at_most).unwrap_or(i64::MAX).saturating_add(1);
                let mut count = connection.prepare_cached(count_statement(question.counted))?;
                let count: i64 = count.query_row((question.tenant.as_str(), limit), |row| row.get(0))?;
                Ok(u64::try_from(count).unwrap_or(0))
            };
            questions.iter().map(count).collect()
        })
        .await
    }
}

fn quota_set(text: &str) -> SqliteResult<QuotaSet> {
    QuotaSet::read_stored(text)
        .map_err(|error| StoreError::Corrupt(format!("quota {text:?}: {error}")).into())
}

/// Counts from an index, up to the limit. Bytes are those of at most 100,000 rows of each kind.
const fn count_statement(counted: CountedQuota) -> &'static str {
    match counted {
        CountedQuota::OpenExecutions => {
            "SELECT count(*) FROM (SELECT 1 FROM executions WHERE tenant = ?1 AND ended_at IS NULL LIMIT ?2)"
        }
        CountedQuota::Definitions => {
            "SELECT count(*) FROM (SELECT 1 FROM definitions WHERE tenant = ?1 LIMIT ?2)"
        }
        CountedQuota::Executors => {
            "SELECT count(*) FROM (SELECT 1 FROM executors WHERE tenant = ?1 LIMIT ?2)"
        }
        CountedQuota::Devices => "SELECT count(*) FROM (SELECT 1 FROM devices WHERE tenant = ?1 LIMIT ?2)",
        CountedQuota::OpenRuns => {
            "SELECT count(*) FROM (SELECT 1 FROM runs WHERE (tenant || '') = ?1 AND ended_at IS NULL
                AND tenant >= '' LIMIT ?2)"
        }
        CountedQuota::Keys => "SELECT count(*) FROM (SELECT 1 FROM api_keys WHERE tenant = ?1 LIMIT ?2)",
        CountedQuota::Queues => "SELECT count(*) FROM (SELECT 1 FROM queues WHERE tenant = ?1 LIMIT ?2)",
        CountedQuota::People => "SELECT count(*) FROM (SELECT 1 FROM people WHERE tenant = ?1 LIMIT ?2)",
        CountedQuota::QueueItems => {
            "SELECT count(*) FROM (SELECT 1 FROM items WHERE (tenant || '') = ?1 AND ended_at IS NULL
                AND tenant >= '' LIMIT ?2)"
        }
        CountedQuota::TaskLeases => {
            "SELECT count(*) FROM (SELECT 1 FROM actions WHERE (tenant || '') = ?1 AND status = 'leased'
                AND attempt_ms IS NOT NULL AND tenant >= '' LIMIT ?2)"
        }
        CountedQuota::StoredBytes => {
            "SELECT coalesce(sum(bytes), 0) FROM (
                SELECT bytes FROM (SELECT length(payload) AS bytes FROM events WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(decision) AS bytes FROM transitions WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(snapshot) AS bytes FROM executions WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(body) + length(payload) AS bytes FROM items WHERE tenant = ?1
                    LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(body) AS bytes FROM runs WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(source) AS bytes FROM definitions WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(config) AS bytes FROM queues WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(blob) AS bytes FROM graphs WHERE tenant = ?1 LIMIT 100000)
                UNION ALL
                SELECT bytes FROM (SELECT length(spec) + coalesce(length(item), 0) + coalesce(length(result), 0) AS bytes
                    FROM graph_nodes WHERE tenant = ?1 LIMIT 100000)
            ) WHERE ?2 > 0"
        }
    }
}
