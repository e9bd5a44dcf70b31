//! Relations between executions: children by their parent, executions by correlation, buffered signals.

use async_trait::async_trait;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_store::StoreResult;
use millstream_store::relations::{Relations, SignalView};
use millstream_workflow::definition::ParentClose;

use crate::connect::PostgresStore;
use crate::decode;
use crate::signals::{self, BufferedSignal};

#[async_trait]
impl Relations for PostgresStore {
    async fn list_children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        const LIST: &str = "
SELECT x.tenant, x.execution_id FROM executions x
WHERE x.parent_id = $2 AND x.tenant = $1 AND x.ended_at IS NULL AND x.execution_id > $4 AND x.parent_close = $3
ORDER BY x.execution_id LIMIT $5";
        self.without_retries(async {
            let rows = sqlx::query(LIST)
                .bind(parent.tenant.as_str())
                .bind(parent.execution.as_str())
                .bind(close.as_str())
                .bind(after.map_or("", |key| key.execution.as_str()))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode::execution_key).collect()
        })
        .await
    }

    async fn find_correlated(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<(ExecutionKey, DefinitionRef)>> {
        const LIST: &str = "
SELECT x.tenant, x.execution_id, x.definition, x.version FROM executions x
WHERE x.correlation = $2 AND x.tenant = $1 AND x.ended_at IS NULL AND ($3::text IS NULL OR x.definition = $3)
ORDER BY x.execution_id LIMIT $4";
        self.without_retries(async {
            let rows = sqlx::query(LIST)
                .bind(tenant.as_str())
                .bind(correlation)
                .bind(definition.map(Name::as_str))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(|row| Ok((decode::execution_key(row)?, decode::definition_ref(row)?))).collect()
        })
        .await
    }

    async fn find_signals(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<SignalView>>> {
        self.without_retries(async {
            let found = signals::read_signals(&self.pool, keys).await?;
            Ok(keys.iter().map(|key| found.get(key).map(signal_view)).collect())
        })
        .await
    }
}

fn signal_view(stored: &BufferedSignal) -> SignalView {
    let signal = &stored.signal;
    SignalView {
        event_id: signal.event_id,
        correlation: signal.correlation.clone(),
        definition: signal.definition.clone(),
        name: signal.name.clone(),
        payload: signal.payload.clone(),
        actor: signal.actor.clone(),
        created_at: stored.created_at,
        expires_at: signal.expires_at,
    }
}
