//! A device that counts to the input of its run: start `millstream dev`, then this, then give it something to
//! do:
//!
//! ```sh
//! cargo run -p millstream-sdk --example device
//! curl -s localhost:7400/v1/runs -H 'Content-Type: application/json' \
//!     -d '{"run_id": "count-1", "kind": "count", "requires": ["counting"], "input": 20}'
//! millstream why count-1
//! ```

use std::time::Duration;

use millstream_sdk::client::NewDevice;
use millstream_sdk::{Client, ClientError, Device, RunContext, RunError};

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let client = Client::new("http://127.0.0.1:7400")?;
    let device = NewDevice::of(format!("counter-{}", std::process::id())).can("counting").capacity(1);
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    Device::new(client, device).serve_until(stop, count).await
}

/// Continues where the previous device stopped.
async fn count(run: RunContext, to: u64) -> Result<u64, RunError> {
    let from = run.last_progress().map_or(0, |progress| progress.step);
    for step in from..to {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => run.progress(step + 1, to),
            () = run.lost() => return Err(RunError::release("this device has lost the run")),
        }
    }
    Ok(to)
}
