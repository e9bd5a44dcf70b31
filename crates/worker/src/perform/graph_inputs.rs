//! Cache of graph inputs for the requests of their nodes: read once for many nodes (request coalescing).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_rpc::blob;
use millstream_store::graph_store::GraphViews;
use millstream_store::{StoreError, StoreResult};
use tokio::sync::OnceCell;
use tokio::time::Instant;

const KEPT: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Within this time no id is released and used again by another graph.
const FRESH: Duration = Duration::from_secs(60);

/// Coalescing: the first request reads, and later ones wait for it. Without it, a thousand nodes that begin
/// at once would read the whole graph a thousand times.
#[derive(Debug)]
pub(crate) struct GraphInputCache(Mutex<LruCache<ExecutionKey, CachedInput>>);

/// Start of the read, and its result.
type CachedInput = (Instant, Arc<OnceCell<RawJson>>);

impl Default for GraphInputCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }
}

impl GraphInputCache {
    pub(crate) async fn get(&self, views: &dyn GraphViews, execution: &ExecutionKey) -> StoreResult<RawJson> {
        self.input_cell(execution).get_or_try_init(|| read_input(views, execution)).await.cloned()
    }

    fn input_cell(&self, execution: &ExecutionKey) -> Arc<OnceCell<RawJson>> {
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

async fn read_input(views: &dyn GraphViews, execution: &ExecutionKey) -> StoreResult<RawJson> {
    let view = views.find_graphs(std::slice::from_ref(execution)).await?.into_iter().flatten().next();
    let Some(view) = view else { return Ok(RawJson::null()) };
    Ok(blob::decode_head(&view.blob).map_err(|error| StoreError::Corrupt(error.to_string()))?.input)
}
