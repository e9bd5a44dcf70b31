//! Registered executors.

use async_trait::async_trait;
use millstream_model::id::{Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::executor_store::{ExecutorStore, RegisteredExecutor};
use sqlx::PgPool;
use sqlx::postgres::PgRow;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl ExecutorStore for PostgresStore {
    async fn record_executor_heartbeats(
        &self,
        executors: &[RegisteredExecutor],
        now: Timestamp,
    ) -> StoreResult<()> {
        if executors.is_empty() {
            return Ok(());
        }
        self.with_retries(|| write_heartbeats(&self.leases, executors, now)).await
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> StoreResult<()> {
        const RETIRE: &str = "
DELETE FROM executors x USING unnest($1::text[], $2::text[]) AS k(tenant, name)
WHERE x.tenant = k.tenant AND x.name = k.name";
        if executors.is_empty() {
            return Ok(());
        }
        self.with_retries(|| async {
            sqlx::query(RETIRE)
                .bind(executors.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
                .bind(executors.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    async fn list_executors(&self, since: Timestamp) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        const READ: &str = "SELECT x.* FROM executors x WHERE x.seen_at >= $1 ORDER BY x.tenant, x.name";
        self.without_retries(async {
            let rows = sqlx::query(READ).bind(since.as_millis()).fetch_all(&self.pool).await?;
            rows.iter().map(decode_executor).collect()
        })
        .await
    }

    async fn list_executors_of(
        &self,
        tenant: &TenantId,
        since: Timestamp,
    ) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        const READ_OF: &str =
            "SELECT x.* FROM executors x WHERE x.tenant = $1 AND x.seen_at >= $2 ORDER BY x.name";
        self.without_retries(async {
            let read = sqlx::query(READ_OF).bind(tenant.as_str()).bind(since.as_millis());
            read.fetch_all(&self.pool).await?.iter().map(decode_executor).collect()
        })
        .await
    }

    async fn forget_executors(&self, before: Timestamp) -> StoreResult<usize> {
        const FORGET: &str = "DELETE FROM executors WHERE seen_at < $1";
        self.with_retries(|| async {
            let done = sqlx::query(FORGET).bind(before.as_millis()).execute(&self.pool).await?;
            Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
        })
        .await
    }
}

/// In the order of their keys. The last report of a batch counts: one statement must not update a row twice.
async fn write_heartbeats(
    pool: &PgPool,
    executors: &[RegisteredExecutor],
    now: Timestamp,
) -> PostgresResult<()> {
    const BEAT: &str = "
INSERT INTO executors (tenant, name, address, roles, labels, capacity, load, seen_at)
SELECT DISTINCT ON (k.tenant COLLATE \"C\", k.name COLLATE \"C\")
       k.tenant, k.name, k.address, k.roles, k.labels, k.capacity, k.load, $8
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
    WITH ORDINALITY AS k(tenant, name, address, roles, labels, capacity, load, ord)
ORDER BY k.tenant COLLATE \"C\", k.name COLLATE \"C\", k.ord DESC
ON CONFLICT (tenant, name) DO UPDATE SET
    address = excluded.address, roles = excluded.roles, labels = excluded.labels, capacity = excluded.capacity,
    load = excluded.load, seen_at = excluded.seen_at";
    let texts = |text: fn(&RegisteredExecutor) -> RawJson| -> Vec<String> {
        executors.iter().map(|executor| text(executor).as_str().to_owned()).collect()
    };
    sqlx::query(BEAT)
        .bind(executors.iter().map(|executor| executor.tenant.as_str()).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| executor.name.as_str()).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| executor.address.as_str()).collect::<Vec<_>>())
        .bind(texts(|executor| RawJson::from_value(&executor.roles)))
        .bind(texts(|executor| RawJson::from_value(&executor.labels)))
        .bind(executors.iter().map(|executor| i64::from(executor.capacity)).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| i64::from(executor.load)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(pool)
        .await?;
    Ok(())
}

fn decode_executor(row: &PgRow) -> PostgresResult<(RegisteredExecutor, Timestamp)> {
    use sqlx::Row as _;
    let executor = RegisteredExecutor {
        tenant: decode::parsed(row, "tenant")?,
        name: decode::parsed(row, "name")?,
        address: row.try_get("address")?,
        roles: decode::list(row, "roles")?,
        labels: decode::list(row, "labels")?,
        capacity: decode::number(row, "capacity")?,
        load: decode::number(row, "load")?,
    };
    Ok((executor, decode::time(row, "seen_at")?))
}
