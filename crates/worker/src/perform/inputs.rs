//! Cache of graph inputs for the requests of their nodes: read once for many nodes (request coalescing).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_core::id::ExecutionKey;
use millstream_core::raw::RawJson;
use millstream_rpc::blob;
use millstream_store::graph_store::GraphViews;
use millstream_store::{Result, StoreError};
use tokio::sync::OnceCell;
use tokio::time::Instant;

const KEPT: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Within this time no id is released and used again by another graph.
const FRESH: Duration = Duration::from_secs(60);

/// Coalescing: the first request reads, and later ones wait for it. Without it, a thousand nodes that begin
/// at once would read the whole graph a thousand times.
#[derive(Debug)]
pub(crate) struct Inputs(Mutex<LruCache<ExecutionKey, Asked>>);

/// Start of the read, and its result.
type Asked = (Instant, Arc<OnceCell<RawJson>>);

impl Default for Inputs {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }
}

impl Inputs {
    pub(crate) async fn get(&self, views: &dyn GraphViews, execution: &ExecutionKey) -> Result<RawJson> {
        self.cell(execution).get_or_try_init(|| read(views, execution)).await.cloned()
    }

    fn cell(&self, execution: &ExecutionKey) -> Arc<OnceCell<RawJson>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, cell)) = kept.get(execution)
            && since.elapsed() < FRESH
        {
            return Arc::clone(cell);
        }
        let cell = Arc::default();
        kept.put(execution.clone(), (Instant::now(), Arc::clone(&cell)));
        cell
    }
}

async fn read(views: &dyn GraphViews, execution: &ExecutionKey) -> Result<RawJson> {
    let view = views.graphs(std::slice::from_ref(execution)).await?.into_iter().flatten().next();
    let Some(view) = view else { return Ok(RawJson::null()) };
    Ok(blob::head(&view.blob).map_err(|error| StoreError::Corrupt(error.to_string()))?.input)
}
