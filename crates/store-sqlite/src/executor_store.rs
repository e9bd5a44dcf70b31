//! Registered executors.

use millstream_model::id::{Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::executor_store::{ExecutorStore, RegisteredExecutor};
use rusqlite::Rows;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::FreeText;

#[async_trait::async_trait]
impl ExecutorStore for SqliteStore {
    async fn record_executor_heartbeats(
        &self,
        executors: &[RegisteredExecutor],
        now: Timestamp,
    ) -> StoreResult<()> {
        const BEAT: &str = "
            INSERT INTO executors (tenant, name, address, roles, labels, capacity, load, seen_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            ON CONFLICT (tenant, name) DO UPDATE SET
                address = excluded.address, roles = excluded.roles, labels = excluded.labels,
                capacity = excluded.capacity, load = excluded.load, seen_at = excluded.seen_at";
        if executors.is_empty() {
            return Ok(());
        }
        let executors = executors.to_vec();
        self.write_transaction(move |connection| {
            let mut beat = connection.prepare_cached(BEAT)?;
            for executor in &executors {
                beat.execute((
                    executor.tenant.as_str(),
                    executor.name.as_str(),
                    FreeText(&executor.address),
                    RawJson::from_value(&executor.roles).as_str(),
                    RawJson::from_value(&executor.labels).as_str(),
                    executor.capacity,
                    executor.load,
                    now.as_millis(),
                ))?;
            }
            Ok(())
        })
        .await
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> StoreResult<()> {
        const RETIRE: &str = "DELETE FROM executors WHERE tenant = ?1 AND name = ?2";
        if executors.is_empty() {
            return Ok(());
        }
        let executors = executors.to_vec();
        self.write_transaction(move |connection| {
            let mut retire = connection.prepare_cached(RETIRE)?;
            for (tenant, name) in &executors {
                retire.execute((tenant.as_str(), name.as_str()))?;
            }
            Ok(())
        })
        .await
    }

    async fn list_executors(&self, since: Timestamp) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        const EXECUTORS: &str = "SELECT * FROM executors WHERE seen_at >= ?1 ORDER BY tenant, name";
        self.read_transaction(move |connection| {
            decode_executors(connection.prepare_cached(EXECUTORS)?.query([since.as_millis()])?)
        })
        .await
    }

    async fn list_executors_of(
        &self,
        tenant: &TenantId,
        since: Timestamp,
    ) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        const EXECUTORS_OF: &str =
            "SELECT * FROM executors WHERE tenant = ?1 AND seen_at >= ?2 ORDER BY name";
        let tenant = tenant.clone();
        self.read_transaction(move |connection| {
            decode_executors(
                connection.prepare_cached(EXECUTORS_OF)?.query((tenant.as_str(), since.as_millis()))?,
            )
        })
        .await
    }

    async fn forget_executors(&self, before: Timestamp) -> StoreResult<usize> {
        const FORGET: &str = "DELETE FROM executors WHERE seen_at < ?1";
        self.write_transaction(move |connection| {
            Ok(connection.prepare_cached(FORGET)?.execute([before.as_millis()])?)
        })
        .await
    }
}

fn decode_executors(mut rows: Rows<'_>) -> SqliteResult<Vec<(RegisteredExecutor, Timestamp)>> {
    let mut executors = Vec::new();
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        let executor = RegisteredExecutor {
            tenant: row.id("tenant")?,
            name: row.id("name")?,
            address: row.text("address")?.to_owned(),
            roles: row.json("roles")?,
            labels: row.json("labels")?,
            capacity: row.number("capacity")?,
            load: row.number("load")?,
        };
        executors.push((executor, row.time("seen_at")?));
    }
    Ok(executors)
}
