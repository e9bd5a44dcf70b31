//! Batching of dispatch records: which executor is about to perform which node, many in one write.
//!
//! The requests that arrive while a write is in flight form the next batch. The reply contains the content of
//! the call to the executor.

use std::sync::Arc;

use millstream_store::graph_store::{DispatchContext, NodeDispatch};
use millstream_store::{StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

use crate::environment::WorkerEnvironment;

/// Upper bound on records per transaction.
const BATCH: usize = 256;

/// Upper bound on upstream results in one request: with the rest of it they fit into a message of 4 MiB.
const RESULT_BYTES: usize = 3 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct DispatchRequest {
    dispatch: NodeDispatch,
    answer: oneshot::Sender<StoreResult<Option<DispatchContext>>>,
}

/// Sender of requests.
#[derive(Debug, Clone)]
pub(crate) struct DispatchRecorder(mpsc::Sender<DispatchRequest>);

impl DispatchRecorder {
    /// The channel has capacity for as many requests as there are slots.
    pub(crate) fn new(slots: usize) -> (Self, mpsc::Receiver<DispatchRequest>) {
        let (wishes, wished) = mpsc::channel(slots.max(1));
        (Self(wishes), wished)
    }

    /// Records a dispatch; `None` when the node no longer exists.
    pub(crate) async fn record_dispatch(
        &self,
        dispatch: NodeDispatch,
    ) -> StoreResult<Option<DispatchContext>> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| StoreError::Unavailable("the worker is stopping".to_owned());
        self.0
            .send(DispatchRequest { dispatch, answer })
            .await
            .map_err(|_| StoreError::Unavailable("the worker is stopping".to_owned()))?;
        answered.await.map_err(gone)?
    }
}

pub(crate) async fn run_dispatch_recorder(
    env: Arc<WorkerEnvironment>,
    mut wished: mpsc::Receiver<DispatchRequest>,
) {
    let mut wishes = Vec::new();
    loop {
        tokio::select! {
            biased;
            taken = wished.recv_many(&mut wishes, BATCH) => if taken == 0 { return },
            () = env.halt.cancelled() => return,
        }
        let (batch, answers): (Vec<NodeDispatch>, Vec<_>) =
            wishes.drain(..).map(|DispatchRequest { dispatch, answer }| (dispatch, answer)).unzip();
        match env.stores.graphs.record_dispatches(&batch, RESULT_BYTES, env.now()).await {
            Ok(contexts) => {
                for (answer, context) in answers.into_iter().zip(contexts) {
                    // The requester may have lost its lease meanwhile.
                    let _ = answer.send(Ok(context));
                }
            }
            Err(error) => {
                env.store_outage.record_failure(&error);
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
