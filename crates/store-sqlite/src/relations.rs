//! Relations between executions. Read-only.

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_store::StoreResult;
use millstream_store::relations::{Relations, SignalView};
use millstream_workflow::definition::ParentClose;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::{self, FreeText};
use crate::signals::read_signal;

#[async_trait::async_trait]
impl Relations for SqliteStore {
    async fn list_children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        const CHILDREN: &str = "
            SELECT tenant, execution_id FROM executions
            WHERE tenant = ?1 AND parent_id = ?2 AND execution_id > ?3
              AND parent_close = ?4 AND phase = 'active'
            ORDER BY execution_id
            LIMIT ?5";
        let (parent, after) = (parent.clone(), after.cloned());
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(CHILDREN)?;
            let mut rows = read.query((
                parent.tenant.as_str(),
                parent.execution.as_str(),
                after.as_ref().map_or("", |key| key.execution.as_str()),
                close.as_str(),
                param::limit(limit),
            ))?;
            let mut children = Vec::new();
            while let Some(row) = rows.next()? {
                children.push(SqliteFields(row).execution()?);
            }
            Ok(children)
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
        let (tenant, correlation, definition) = (tenant.clone(), correlation.to_owned(), definition.cloned());
        self.read_transaction(move |connection| {
            find_correlated(connection, &tenant, &correlation, definition.as_ref(), limit)
        })
        .await
    }

    async fn find_signals(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<SignalView>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            keys.iter().map(|(tenant, event)| read_signal(connection, tenant, *event)).collect()
        })
        .await
    }
}

/// Executions that have the correlation; ended ones have none.
pub(crate) fn find_correlated(
    connection: &Connection,
    tenant: &TenantId,
    correlation: &str,
    definition: Option<&Name>,
    limit: usize,
) -> SqliteResult<Vec<(ExecutionKey, DefinitionRef)>> {
    const CORRELATED: &str = "
        SELECT tenant, execution_id, definition, version FROM executions
        WHERE tenant = ?1 AND correlation = ?2 AND (?3 IS NULL OR definition = ?3)
        ORDER BY execution_id
        LIMIT ?4";
    let mut read = connection.prepare_cached(CORRELATED)?;
    let definition = definition.map(Name::as_str);
    let mut rows = read.query((tenant.as_str(), FreeText(correlation), definition, param::limit(limit)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((SqliteFields(row).execution()?, SqliteFields(row).definition()?));
    }
    Ok(found)
}
