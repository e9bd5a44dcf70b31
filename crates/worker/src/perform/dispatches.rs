//! Recording who is about to perform which node, many in one write.
//!
//! Whatever was asked for while the last write was in flight is the next batch. The answer brings what the
//! requests are made of.

use std::sync::Arc;

use millstream_store::graph_store::{Dispatch, DispatchContext};
use millstream_store::{Result, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::worker::Worker;

/// One transaction records at most this many.
const BATCH: usize = 256;

/// Upstream results in one request: with the rest of it they fit into a message of 4 MiB.
const RESULT_BYTES: usize = 3 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Wish {
    dispatch: Dispatch,
    answer: oneshot::Sender<Result<Option<DispatchContext>>>,
}

/// The way in.
#[derive(Debug, Clone)]
pub(crate) struct Dispatches(mpsc::Sender<Wish>);

impl Dispatches {
    /// There is room for as many wishes as there are slots.
    pub(crate) fn new(slots: usize) -> (Self, mpsc::Receiver<Wish>) {
        let (wishes, wished) = mpsc::channel(slots.max(1));
        (Self(wishes), wished)
    }

    /// Records it; `None` when there is no such node any more.
    pub(crate) async fn record(&self, dispatch: Dispatch) -> Result<Option<DispatchContext>> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| StoreError::Unavailable("the worker stops".to_owned());
        self.0
            .send(Wish { dispatch, answer })
            .await
            .map_err(|_| StoreError::Unavailable("the worker stops".to_owned()))?;
        answered.await.map_err(gone)?
    }
}

pub(crate) async fn run(worker: Arc<Worker>, mut wished: mpsc::Receiver<Wish>) {
    let mut wishes = Vec::new();
    loop {
        tokio::select! {
            biased;
            taken = wished.recv_many(&mut wishes, BATCH) => if taken == 0 { return },
            () = worker.halt.cancelled() => return,
        }
        let (batch, answers): (Vec<Dispatch>, Vec<_>) =
            wishes.drain(..).map(|Wish { dispatch, answer }| (dispatch, answer)).unzip();
        match worker.deps.stores.graphs.dispatch(&batch, RESULT_BYTES, worker.now()).await {
            Ok(contexts) => {
                for (answer, context) in answers.into_iter().zip(contexts) {
                    // Whoever asked may have lost its lease meanwhile.
                    let _ = answer.send(Ok(context));
                }
            }
            Err(error) => {
                worker.store_outage.met(&error);
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
