//! Registered executors.

use async_trait::async_trait;
use millstream_core::id::{Name, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::executor_store::{Executor, ExecutorStore};
use sqlx::PgPool;
use sqlx::postgres::PgRow;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;

#[async_trait]
impl ExecutorStore for PostgresStore {
    async fn beat_executors(&self, executors: &[Executor], now: Timestamp) -> Result<()> {
        if executors.is_empty() {
            return Ok(());
        }
        self.patiently(|| beat(&self.leases, executors, now)).await
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> Result<()> {
        const RETIRE: &str = "
DELETE FROM executors x USING unnest($1::text[], $2::text[]) AS k(tenant, name)
WHERE x.tenant = k.tenant AND x.name = k.name";
        if executors.is_empty() {
            return Ok(());
        }
        self.patiently(|| async {
            sqlx::query(RETIRE)
                .bind(executors.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
                .bind(executors.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    async fn executors(&self, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        const READ: &str = "SELECT x.* FROM executors x WHERE x.seen_at >= $1 ORDER BY x.tenant, x.name";
        self.once(async {
            let rows = sqlx::query(READ).bind(since.as_millis()).fetch_all(&self.pool).await?;
            rows.iter().map(executor).collect()
        })
        .await
    }

    async fn executors_of(&self, tenant: &TenantId, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        const READ_OF: &str =
            "SELECT x.* FROM executors x WHERE x.tenant = $1 AND x.seen_at >= $2 ORDER BY x.name";
        self.once(async {
            let read = sqlx::query(READ_OF).bind(tenant.as_str()).bind(since.as_millis());
            read.fetch_all(&self.pool).await?.iter().map(executor).collect()
        })
        .await
    }

    async fn forget_executors(&self, before: Timestamp) -> Result<usize> {
        const FORGET: &str = "DELETE FROM executors WHERE seen_at < $1";
        self.patiently(|| async {
            let done = sqlx::query(FORGET).bind(before.as_millis()).execute(&self.pool).await?;
            Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
        })
        .await
    }
}

/// In the order of their keys. The last report of a batch counts: one statement must not update a row twice.
async fn beat(pool: &PgPool, executors: &[Executor], now: Timestamp) -> Attempt<()> {
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
    let texts = |text: fn(&Executor) -> RawJson| -> Vec<String> {
        executors.iter().map(|executor| text(executor).as_str().to_owned()).collect()
    };
    sqlx::query(BEAT)
        .bind(executors.iter().map(|executor| executor.tenant.as_str()).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| executor.name.as_str()).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| executor.address.as_str()).collect::<Vec<_>>())
        .bind(texts(|executor| RawJson::of(&executor.roles)))
        .bind(texts(|executor| RawJson::of(&executor.labels)))
        .bind(executors.iter().map(|executor| i64::from(executor.capacity)).collect::<Vec<_>>())
        .bind(executors.iter().map(|executor| i64::from(executor.load)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(pool)
        .await?;
    Ok(())
}

fn executor(row: &PgRow) -> Attempt<(Executor, Timestamp)> {
    use sqlx::Row as _;
    let executor = Executor {
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
