//! Asking the store which definitions executions run: many requests, one query.
//!
//! Whatever was asked while the last query was in flight is the next query, like commits in
//! [`crate::accept`]; one request alone never waits for company. The query belongs to this task and not to
//! a request: a client that goes away takes nobody's answer along.

use std::sync::Arc;

use millstream_core::id::{DefinitionRef, ExecutionKey};
use millstream_store::event_log::EventLog;
use millstream_store::{Result, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Keys per query, unless one request alone has more.
const KEYS: usize = 2_048;
/// Requests are admitted by the gate before they come here; this only bounds what a slow store holds up.
const WAITING: usize = 4_096;

type Targets = Vec<Option<DefinitionRef>>;

#[derive(Debug, Clone)]
pub(crate) struct Lookup(mpsc::Sender<Question>);

#[derive(Debug)]
struct Question {
    keys: Vec<ExecutionKey>,
    answer: oneshot::Sender<Result<Targets>>,
}

impl Lookup {
    /// Starts the task; it ends when every handle is gone.
    pub(crate) fn start(log: Arc<dyn EventLog>, tasks: &TaskTracker) -> Self {
        let (ask, questions) = mpsc::channel(WAITING);
        tasks.spawn(answer_all(questions, log));
        Self(ask)
    }

    /// The definition of each execution, in order; `None` where there is no such execution.
    pub(crate) async fn targets(&self, keys: Vec<ExecutionKey>) -> Result<Targets> {
        let gone = |_| StoreError::Unavailable("nobody asks the store any more".to_owned());
        let (answer, answered) = oneshot::channel();
        self.0.send(Question { keys, answer }).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

async fn answer_all(mut questions: mpsc::Receiver<Question>, log: Arc<dyn EventLog>) {
    while let Some(first) = questions.recv().await {
        let mut keys = first.keys;
        let mut waiting = vec![(keys.len(), first.answer)];
        while keys.len() < KEYS
            && let Ok(next) = questions.try_recv()
        {
            waiting.push((next.keys.len(), next.answer));
            keys.extend(next.keys);
        }
        let mut found = log.targets(&keys).await.map(Vec::into_iter);
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
