//! A worker with one action: `charge`, which `payment.yaml` calls.
//!
//! With nothing set it is the whole engine in one process. With `MILLSTREAM_DATABASE_URL` and `MILLSTREAM_REDIS_URL`
//! it is a worker of a fleet: start as many as you like.

mod charge;
mod till;

use std::sync::Arc;

use millstream_sdk::{ActionContext, Worker, WorkerError};

use crate::charge::{Charge, charge};
use crate::till::Till;

#[tokio::main]
async fn main() -> Result<(), WorkerError> {
    let till = Arc::new(Till::default());
    let action = move |ctx: ActionContext, input: Charge| charge(Arc::clone(&till), ctx, input);
    Worker::builder().action("charge", action).run().await
}
