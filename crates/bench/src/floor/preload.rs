//! Writes a backlog to a database file before an engine serves it.

use std::path::Path;

use millstream_core::id::TenantId;
use millstream_store::event_log::{Append, Appended};

use super::store::{OpenStore, failed};
use super::values::Values;
use crate::error::{BenchError, Result};
use crate::workload::Workload;

/// Items in one transaction.
const BATCH: usize = 500;

#[derive(Debug)]
pub(crate) struct Preload {
    store: OpenStore,
}

impl Preload {
    /// Creates the file with its tables.
    pub(crate) async fn open(file: &Path) -> Result<Self> {
        Ok(Self { store: OpenStore::sqlite(file).await? })
    }

    /// Writes `events` executions, each with one undecided event.
    pub(crate) async fn put(self, workload: Workload, prefix: &str, events: usize) -> Result<()> {
        let values = Values::of(workload, prefix, self.store.now())?;
        let stores = &self.store.stores;
        let definition = values.new_definition();
        stores
            .definitions
            .put(&TenantId::default_tenant(), &definition, self.store.now())
            .await
            .map_err(failed)?;
        for first in (0..events).step_by(BATCH) {
            let mut batch = Vec::with_capacity(BATCH * 2);
            for number in first..events.min(first + BATCH) {
                batch.push(values.start(number, self.store.now())?);
                batch.push(Append::Event(values.event(number)?));
            }
            for verdict in stores.events.append(&batch, self.store.now()).await.map_err(failed)? {
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
