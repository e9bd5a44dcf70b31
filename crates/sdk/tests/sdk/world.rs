//! An embedded engine of one test, with the definitions that the tests use.

use std::time::Duration;

use millstream_sdk::client::ClientRetry;
use millstream_sdk::{Client, RunningWorker, Worker};
use tempfile::TempDir;

/// Adds up; stops on request.
pub(crate) const COUNTER: &str = include_str!("../../../../examples/counter.yaml");
pub(crate) const APPROVAL: &str = include_str!("../../../../examples/approval.yaml");

pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct SdkWorld {
    pub(crate) engine: RunningWorker,
    pub(crate) client: Client,
    _directory: TempDir,
}

impl SdkWorld {
    /// An engine on a free port in a new directory.
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Worker::builder()
            .directory(directory.path())
            .listen("127.0.0.1:0".parse().unwrap())
            .configure(|config| config.log = "error".to_owned())
            .start()
            .await
            .unwrap();
        let client = engine.client().unwrap();
        client.apply_yaml(COUNTER).await.unwrap();
        Self { engine, client, _directory: directory }
    }
}

/// A client that retries quickly and often.
pub(crate) fn persistent(address: std::net::SocketAddr) -> Client {
    Client::builder(format!("http://{address}"))
        .retry(ClientRetry {
            attempts: 200,
            backoff: Duration::from_millis(1),
            max: Duration::from_millis(20),
        })
        .build()
        .unwrap()
}
