//! The inputs of graphs, for the requests of their nodes: read once for many nodes, and kept for a moment.

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
/// No id is free again, and used for another graph, within this time.
const FRESH: Duration = Duration::from_secs(60);

/// Whoever comes first reads; who comes meanwhile waits for it. A thousand nodes that begin at once would read the
/// whole graph a thousand times otherwise.
#[derive(Debug)]
pub(crate) struct Inputs(Mutex<LruCache<ExecutionKey, Asked>>);

/// Since when, and what came of it.
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
