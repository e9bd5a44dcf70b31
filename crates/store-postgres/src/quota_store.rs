//! Quotas of tenants (rate limits, capacity limits), and their usage.

use async_trait::async_trait;
use millstream_model::id::TenantId;
use millstream_model::quota::{CountedQuota, QuotaSet};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::quota_store::{QuotaRevision, QuotaRows, QuotaStore, UsageQuestion};
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::decode::{parsed, undecodable};
use crate::errors::PostgresResult;

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn put_quota(&self, tenant: &TenantId, quota: &QuotaSet, now: Timestamp) -> StoreResult<()> {
        // The row of the revision is locked before anything else: changes are committed in the order of
        // revisions.
        const PUT: &str = "
WITH raised AS (UPDATE quota_revision SET revision = revision + 1 RETURNING revision)
INSERT INTO tenant_quotas (tenant, quota, updated_at) SELECT $1, $2, $3 FROM raised
ON CONFLICT (tenant) DO UPDATE SET quota = excluded.quota, updated_at = excluded.updated_at";
        self.with_retries(|| async {
            let query = sqlx::query(PUT).bind(tenant.as_str()).bind(quota.to_json().to_string());
            query.bind(now.as_millis()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    async fn quota_of(&self, tenant: &TenantId) -> StoreResult<Option<QuotaSet>> {
        const FIND: &str = "SELECT quota FROM tenant_quotas WHERE tenant = $1";
        self.without_retries(async {
            let text: Option<String> =
                sqlx::query_scalar(FIND).bind(tenant.as_str()).fetch_optional(&self.pool).await?;
            text.map(|text| quota_set(&text)).transpose()
        })
        .await
    }

    async fn quotas_after(&self, known: QuotaRevision) -> StoreResult<Option<QuotaRows>> {
        const READ: &str = "
SELECT r.revision, q.tenant, q.quota FROM quota_revision r LEFT JOIN tenant_quotas q ON TRUE
WHERE r.revision <> $1 ORDER BY q.tenant";
        self.without_retries(async {
            let rows = sqlx::query(READ).bind(known.0).fetch_all(&self.pool).await?;
            let Some(first) = rows.first() else { return Ok(None) };
            let revision = QuotaRevision(first.try_get("revision")?);
            let quotas = rows.iter().filter_map(|row| match row.try_get::<Option<String>, _>("quota") {
                Ok(None) => None,
                Ok(Some(text)) => {
                    Some(parsed(row, "tenant").and_then(|tenant| Ok((tenant, quota_set(&text)?))))
                }
                Err(error) => Some(Err(error.into())),
            });
            Ok(Some(QuotaRows { revision, rows: quotas.collect::<PostgresResult<_>>()? }))
        })
        .await
    }

    async fn count_usage(&self, questions: &[UsageQuestion]) -> StoreResult<Vec<u64>> {
        self.without_retries(async {
            let mut counts = Vec::with_capacity(questions.len());
            for question in questions {
                counts.push(match count_statement(question.counted) {
                    Some(statement) => count_rows(&self.pool, statement, question).await?,
                    None => stored_bytes(&self.pool, &question.tenant).await?,
                });
            }
            Ok(counts)
        })
        .await
    }
}

fn quota_set(text: &str) -> PostgresResult<QuotaSet> {
    QuotaSet::read_stored(text).map_err(|error| undecodable("quota", text, error))
}

/// Counts from an index, up to the limit.
const fn count_statement(counted: CountedQuota) -> Option<&'static str> {
    match counted {
        CountedQuota::OpenExecutions => Some(
            "SELECT count(*) FROM (SELECT FROM executions WHERE (tenant || '') = $1 AND ended_at IS NULL LIMIT $2) x",
        ),
        CountedQuota::Definitions => {
            Some("SELECT count(*) FROM (SELECT FROM definitions WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::Executors => {
            Some("SELECT count(*) FROM (SELECT FROM executors WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::Devices => {
            Some("SELECT count(*) FROM (SELECT FROM devices WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::OpenRuns => Some(
            "SELECT count(*) FROM (SELECT FROM runs WHERE (tenant || '') = $1 AND ended_at IS NULL LIMIT $2) x",
        ),
        CountedQuota::Keys => {
            Some("SELECT count(*) FROM (SELECT FROM api_keys WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::Queues => {
            Some("SELECT count(*) FROM (SELECT FROM queues WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::People => {
            Some("SELECT count(*) FROM (SELECT FROM people WHERE tenant = $1 LIMIT $2) x")
        }
        CountedQuota::QueueItems => Some(
            "SELECT count(*) FROM (SELECT FROM items WHERE (tenant || '') = $1 AND ended_at IS NULL LIMIT $2) x",
        ),
        CountedQuota::TaskLeases => Some(
            "SELECT count(*) FROM (SELECT FROM actions WHERE (tenant || '') = $1 AND status = 'leased'
                AND attempt_ms IS NOT NULL LIMIT $2) x",
        ),
        CountedQuota::StoredBytes => None,
    }
}

async fn count_rows(pool: &PgPool, statement: &'static str, question: &UsageQuestion) -> PostgresResult<u64> {
    let limit = i64::try_from(question.at_most).unwrap_or(i64::MAX).saturating_add(1);
    let count: i64 =
        sqlx::query_scalar(statement).bind(question.tenant.as_str()).bind(limit).fetch_one(pool).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Pages of one table that an estimate reads.
const SAMPLE_PAGES: f64 = 256.0;

/// The large columns of the large tables, from a sample of their pages.
const LARGE: &[(&str, &str)] = &[
    (
        "SELECT pg_relation_size('events')",
        "
SELECT coalesce(sum(octet_length(payload)), 0) FROM events TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('transitions')",
        "
SELECT coalesce(sum(octet_length(decision)), 0) FROM transitions TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('executions')",
        "
SELECT coalesce(sum(octet_length(snapshot)), 0) FROM executions TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('items')",
        "
SELECT coalesce(sum(octet_length(body) + octet_length(payload)), 0) FROM items TABLESAMPLE SYSTEM ($2)
WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('runs')",
        "
SELECT coalesce(sum(octet_length(body)), 0) FROM runs TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('definitions')",
        "
SELECT coalesce(sum(octet_length(source)), 0) FROM definitions TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('queues')",
        "
SELECT coalesce(sum(octet_length(config)), 0) FROM queues TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('graphs')",
        "
SELECT coalesce(sum(octet_length(blob)), 0) FROM graphs TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
    (
        "SELECT pg_relation_size('graph_nodes')",
        "
SELECT coalesce(sum(octet_length(spec) + coalesce(octet_length(item), 0) + coalesce(octet_length(result), 0)), 0)
FROM graph_nodes TABLESAMPLE SYSTEM ($2) WHERE tenant = $1",
    ),
];

async fn stored_bytes(pool: &PgPool, tenant: &TenantId) -> PostgresResult<u64> {
    let mut total = 0.0;
    for &(size, sample) in LARGE {
        let bytes: i64 = sqlx::query_scalar(size).fetch_one(pool).await?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let percent = (100.0 * SAMPLE_PAGES * 8_192.0 / (bytes.max(1) as f64)).min(100.0);
        let found: i64 =
            sqlx::query_scalar(sample).bind(tenant.as_str()).bind(percent).fetch_one(pool).await?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let found = found as f64;
        total += found * 100.0 / percent;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, and not negative"
    )]
    Ok(total as u64)
}
