//! Says that the executor is there, as often as the engine wants to hear it.

use std::time::Duration;

use millstream_rpc::proto::executor_service_client::ExecutorServiceClient;
use millstream_rpc::proto::{Executor, RegisterExecutorRequest};
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;

use crate::Options;

/// Until it is heard for the first time, and while the engine is away.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn again_and_again(options: Options, address: String) {
    loop {
        let wait = match beat(&options, &address).await {
            Ok(wait) => wait,
            Err(error) => {
                eprintln!("not registered: {error}");
                AGAIN
            }
        };
        tokio::time::sleep(wait).await;
    }
}

async fn beat(options: &Options, address: &str) -> anyhow::Result<Duration> {
    let channel = Channel::from_shared(options.millstream.clone())?.connect().await?;
    let executor = Executor {
        name: options.name.clone(),
        address: address.to_owned(),
        roles: options.role.clone(),
        labels: options.label.clone(),
        capacity: options.capacity,
        ..Default::default()
    };
    let mut request = Request::new(RegisterExecutorRequest { executor: Some(executor) });
    if !options.key.is_empty() {
        let key = MetadataValue::try_from(format!("Bearer {}", options.key))?;
        request.metadata_mut().insert("authorization", key);
    }
    let answer = ExecutorServiceClient::new(channel).register_executor(request).await?.into_inner();
    let every = answer.beat_every.and_then(|every| Duration::try_from(every).ok());
    Ok(every.unwrap_or(AGAIN))
}
