//! CPU-bound work that grows with a graph runs off the runtime threads, a few jobs at a time.

use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_rpc::graph_start::INLINE_CHECK_BYTES;

use crate::refusal::{RefusalKind, RequestRefusal};

/// Runs `work`, whose estimated size is `bytes`: on the pool, unless moving it there costs more than the
/// work.
pub(crate) async fn run_off_runtime<T: Send + 'static>(
    pool: &EvaluationPool,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestRefusal> {
    if bytes < INLINE_CHECK_BYTES {
        return Ok(work());
    }
    pool.run(|_| work())
        .await
        .map_err(|closed| RequestRefusal::new(RefusalKind::Draining, closed.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_rpc::evaluation_pool::EvaluationPlace;
    use millstream_workflow::graph::{self, GraphSpec, NodeEdit};

    use super::*;

    /// A small graph with `count` patterns.
    fn patterned(count: usize) -> GraphSpec {
        let node =
            |n| format!(r#"{{"id":"n{n}","parents":[{{"node":"a","if":"input.s.matches('a{{20}}')"}}]}}"#);
        let nodes: Vec<String> = (0..count).map(node).collect();
        serde_json::from_str(&format!(r#"{{"name":"g","nodes":[{{"id":"a"}},{}]}}"#, nodes.join(",")))
            .unwrap()
    }

    #[tokio::test]
    async fn many_patterns_run_off_the_runtime() {
        let pool = EvaluationPool::new(Duration::MAX, EvaluationPlace::Threads);
        let here = std::thread::current().id();
        for (patterns, stays) in [(2, true), (100, false)] {
            let spec = patterned(patterns);
            let edits: Vec<NodeEdit> =
                spec.nodes.iter().map(|node| NodeEdit::Insert(node.clone().into())).collect();
            for bytes in [graph::graph_check_bytes(&spec), graph::edit_check_bytes(&edits)] {
                let ran_on = run_off_runtime(&pool, bytes, || std::thread::current().id()).await.unwrap();
                assert_eq!(ran_on == here, stays, "{patterns} patterns");
            }
        }
    }
}
