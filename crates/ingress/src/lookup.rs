//! Asking the store for things by their keys: many requests, one query.
//!
//! Whatever was asked while the last query was in flight is the next query, like commits in
//! [`crate::accept`]; one request alone never waits for company. The query belongs to this task and not to
//! a request: a client that goes away takes nobody's answer along.

use millstream_store::{Result, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Keys per query, unless one request alone has more.
const KEYS: usize = 2_048;
/// Requests are admitted by the gate before they come here; this only bounds what a slow store holds up.
const WAITING: usize = 4_096;

/// The way to ask for a `V` by each `K`.
#[derive(Debug)]
pub(crate) struct Lookup<K, V>(mpsc::Sender<Question<K, V>>);

#[derive(Debug)]
struct Question<K, V> {
    keys: Vec<K>,
    answer: oneshot::Sender<Result<Vec<V>>>,
}

impl<K: Send + 'static, V: Send + 'static> Lookup<K, V> {
    /// Starts the task; it ends when the handle is gone. `query` answers each key, in order.
    pub(crate) fn start<F>(query: impl Fn(Vec<K>) -> F + Send + 'static, tasks: &TaskTracker) -> Self
    where
        F: Future<Output = Result<Vec<V>>> + Send + 'static,
    {
        let (ask, questions) = mpsc::channel(WAITING);
        tasks.spawn(answer_all(questions, query));
        Self(ask)
    }

    /// One answer per key, in order.
    pub(crate) async fn ask(&self, keys: Vec<K>) -> Result<Vec<V>> {
        let gone = |_| StoreError::Unavailable("nobody asks the store any more".to_owned());
        let (answer, answered) = oneshot::channel();
        self.0.send(Question { keys, answer }).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

async fn answer_all<K, V, F>(mut questions: mpsc::Receiver<Question<K, V>>, query: impl Fn(Vec<K>) -> F)
where
    F: Future<Output = Result<Vec<V>>>,
{
    while let Some(first) = questions.recv().await {
        let mut keys = first.keys;
        let mut waiting = vec![(keys.len(), first.answer)];
        while keys.len() < KEYS
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
            // An error means that the client has gone.
            let _ = answer.send(part);
        }
    }
}
