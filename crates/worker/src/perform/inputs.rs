//! The inputs of graphs, for the requests of their nodes: read once for many nodes, and kept for a moment.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_core::id::ExecutionKey;
use millstream_core::raw::RawJson;
use millstream_rpc::blob;
use millstream_store::graph_store::GraphViews;
use millstream_store::{Result, StoreError};
use tokio::time::Instant;

const KEPT: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// No id is free again, and used for another graph, within this time.
const FRESH: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Inputs(Mutex<LruCache<ExecutionKey, (Instant, RawJson)>>);

impl Default for Inputs {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }
}

impl Inputs {
    pub(crate) async fn get(&self, views: &dyn GraphViews, execution: &ExecutionKey) -> Result<RawJson> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(execution).cloned();
        if let Some((at, input)) = kept
            && at.elapsed() < FRESH
        {
            return Ok(input);
        }
        let view = views.graphs(std::slice::from_ref(execution)).await?.into_iter().flatten().next();
        let input = match view {
            Some(view) => {
                blob::head(&view.blob).map_err(|error| StoreError::Corrupt(error.to_string()))?.input
            }
            None => RawJson::null(),
        };
        let entry = (Instant::now(), input.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(execution.clone(), entry);
        Ok(input)
    }
}
