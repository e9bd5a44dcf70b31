//! Coalescing of store requests by key: many requests, one query (also used for batched writes).
//!
//! All requests that arrive while a query is in flight form the next query, like commits in
//! [`crate::accept`]; a single request never waits for more. The query belongs to this task and not to a
//! request: a client that disconnects does not cancel the answers of others.

use millstream_store::{StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Keys per query, unless one request alone has more.
const KEYS: usize = 2_048;
/// Bound of waiting requests. The gate admits requests before they come here; this only bounds the backlog
/// of a slow store.
const WAITING: usize = 4_096;

/// Coalesces requests for a `V` by each `K`.
#[derive(Debug)]
pub(crate) struct Coalescer<K, V>(mpsc::Sender<CoalescedRequest<K, V>>);

#[derive(Debug)]
struct CoalescedRequest<K, V> {
    keys: Vec<K>,
    answer: oneshot::Sender<StoreResult<Vec<V>>>,
}

impl<K: Send + 'static, V: Send + 'static> Coalescer<K, V> {
    /// Starts the task; it ends when the handle is dropped. `query` answers each key, in order.
    pub(crate) fn start_coalescer<F>(
        query: impl Fn(Vec<K>) -> F + Send + 'static,
        tasks: &TaskTracker,
    ) -> Self
    where
        F: Future<Output = StoreResult<Vec<V>>> + Send + 'static,
    {
        Self::start_with_limit(KEYS, query, tasks)
    }

    /// Starts the task with `most` keys per query, unless one request alone has more.
    pub(crate) fn start_with_limit<F>(
        most: usize,
        query: impl Fn(Vec<K>) -> F + Send + 'static,
        tasks: &TaskTracker,
    ) -> Self
    where
        F: Future<Output = StoreResult<Vec<V>>> + Send + 'static,
    {
        let (ask, questions) = mpsc::channel(WAITING);
        tasks.spawn(answer_all(questions, most, query));
        Self(ask)
    }

    /// One answer per key, in order.
    pub(crate) async fn ask_batched(&self, keys: Vec<K>) -> StoreResult<Vec<V>> {
        let gone = |_| StoreError::Unavailable("the store lookup task has ended".to_owned());
        let (answer, answered) = oneshot::channel();
        self.0.send(CoalescedRequest { keys, answer }).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

async fn answer_all<K, V, F>(
    mut questions: mpsc::Receiver<CoalescedRequest<K, V>>,
    most: usize,
    query: impl Fn(Vec<K>) -> F,
) where
    F: Future<Output = StoreResult<Vec<V>>>,
{
    while let Some(first) = questions.recv().await {
        let mut keys = first.keys;
        let mut waiting = vec![(keys.len(), first.answer)];
        while keys.len() < most
            && let Ok(next) = questions.try_recv()
        {
            waiting.push((next.keys.len(), next.answer));
            keys.extend(next.keys);
        }
        let mut found = query(keys).await.map(Vec::into_iter);
        for (count, answer) in waiting {
            let part = match &mut found {
                Ok(found) => Ok(found.by_ref().take(count).collect()),
                Err(error) => Err(error.clone()),
            };
            // An error means that the client has disconnected.
            let _ = answer.send(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// A lookup that doubles numbers, one query for each permit, and the sizes of its queries.
    fn doubling(permits: &Arc<Semaphore>) -> (Coalescer<u32, u32>, Arc<Mutex<Vec<usize>>>) {
        let (permits, sizes) = (permits.clone(), Arc::new(Mutex::new(Vec::new())));
        let seen = sizes.clone();
        let query = move |keys: Vec<u32>| {
            seen.lock().unwrap().push(keys.len());
            let permits = permits.clone();
            async move {
                permits.acquire().await.unwrap().forget();
                if keys.contains(&13) {
                    return Err(StoreError::Unavailable("not today".to_owned()));
                }
                Ok(keys.into_iter().map(|key| key * 2).collect())
            }
        };
        (Coalescer::start_coalescer(query, &TaskTracker::new()), sizes)
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_query() {
        let permits = Arc::new(Semaphore::new(0));
        let (lookup, sizes) = doubling(&permits);
        let mut first = std::pin::pin!(lookup.ask_batched(vec![1]));
        assert!(futures::poll!(&mut first).is_pending());
        tokio::task::yield_now().await;
        let mut rest = std::pin::pin!(join_all((2..=5).map(|key| lookup.ask_batched(vec![key, 10 * key]))));
        assert!(futures::poll!(&mut rest).is_pending());
        permits.add_permits(2);
        assert_eq!(first.await.unwrap(), [2]);
        let rest: Vec<Vec<u32>> = rest.await.into_iter().map(StoreResult::unwrap).collect();
        assert_eq!(rest, [[4, 40], [6, 60], [8, 80], [10, 100]]);
        assert_eq!(*sizes.lock().unwrap(), [1, 8]);
    }

    #[tokio::test]
    async fn failed_query_fails_its_requests_only() {
        let (lookup, _) = doubling(&Arc::new(Semaphore::new(9)));
        assert!(lookup.ask_batched(vec![13]).await.is_err());
        assert_eq!(lookup.ask_batched(vec![14]).await.unwrap(), [28]);
    }
}
