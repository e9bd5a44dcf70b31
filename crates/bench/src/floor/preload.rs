//! Writes a backlog to a database file before an engine serves it.

use std::path::Path;

use millstream_model::id::TenantId;
use millstream_store::event_log::{AppendRequest, Appended};

use super::store::{FloorStore, store_error};
use super::values::FloorRows;
use crate::error::{BenchError, BenchResult};
use crate::workload::Workload;

/// Items in one transaction.
const BATCH: usize = 500;

#[derive(Debug)]
pub(crate) struct BacklogPreload {
    store: FloorStore,
}

impl BacklogPreload {
    /// Creates the file with its tables.
    pub(crate) async fn open(file: &Path) -> BenchResult<Self> {
        Ok(Self { store: FloorStore::open_sqlite(file).await? })
    }

    /// Writes `events` executions, each with one undecided event.
    pub(crate) async fn write_backlog(
        self,
        workload: Workload,
        prefix: &str,
        events: usize,
    ) -> BenchResult<()> {
        let values = FloorRows::for_workload(workload, prefix, self.store.now())?;
        let stores = &self.store.stores;
        let definition = values.new_definition();
        stores
            .definitions
            .put_definition(&TenantId::default_tenant(), &definition, self.store.now())
            .await
            .map_err(store_error)?;
        for first in (0..events).step_by(BATCH) {
            let mut batch = Vec::with_capacity(BATCH * 2);
            for number in first..events.min(first + BATCH) {
                batch.push(values.execution_start(number, self.store.now())?);
                batch.push(AppendRequest::Event(values.new_event(number)?));
            }
            for verdict in stores.events.append(&batch, self.store.now()).await.map_err(store_error)? {
                match verdict {
                    Appended::Accepted { .. } => {}
                    Appended::Repeat { .. }
                    | Appended::Delivered { .. }
                    | Appended::Buffered
                    | Appended::Ambiguous { .. }
                    | Appended::Mismatch
                    | Appended::NoExecution => {
                        return Err(BenchError::Wrong(format!("the backlog was refused: {verdict:?}")));
                    }
                }
            }
        }
        self.store.close().await;
        Ok(())
    }
}
