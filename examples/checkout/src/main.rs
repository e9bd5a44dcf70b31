//! The Rust side of `examples/checkout.yaml`: a worker with the actions of a warehouse.
//!
//! With nothing set it is the whole engine in one process. With `MILLSTREAM_DATABASE_URL` and
//! `MILLSTREAM_REDIS_URL` it is a worker of a fleet: start as many as you like.

mod warehouse;

use millstream_sdk::{Worker, WorkerError};

use crate::warehouse::{pack, release, reserve};

#[tokio::main]
async fn main() -> Result<(), WorkerError> {
    Worker::builder().action("reserve", reserve).action("release", release).action("pack", pack).run().await
}
