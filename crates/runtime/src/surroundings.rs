//! Whether Redis is one that a worker can rely on: asked at the start, and again until it answers.
//!
//! A Redis that evicts loses streams with their groups without a word. One that does not answer yet must not
//! get past that question, or a fleet that was started before its Redis would never be told.

use std::time::Duration;

use millstream_stream::{StreamError, Streams};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const AGAIN: Duration = Duration::from_secs(1);

/// What is left to ask.
#[derive(Debug)]
pub enum Checked {
    Usable,
    /// It did not answer.
    NotYet,
}

/// Asks once. An error if it answers and cannot be used.
pub async fn check(streams: &Streams) -> Result<Checked, StreamError> {
    match streams.care.check().await {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            Ok(Checked::Usable)
        }
        Err(error @ StreamError::Unusable(_)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "Redis does not answer yet");
            Ok(Checked::NotYet)
        }
    }
}

/// Asks again until it answers. If it cannot be used the worker drains, and ends with what this returns.
pub fn check_later(streams: Streams, shutdown: CancellationToken) -> JoinHandle<Option<StreamError>> {
    tokio::spawn(async move {
        loop {
            let asked = async {
                tokio::time::sleep(AGAIN).await;
                streams.care.check().await
            };
            let answer = tokio::select! {
                answer = asked => answer,
                () = shutdown.cancelled() => return None,
            };
            match answer {
                Ok(warnings) => {
                    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    return None;
                }
                Err(error @ StreamError::Unusable(_)) => {
                    tracing::error!(%error, "Redis cannot be used, the worker ends");
                    shutdown.cancel();
                    return Some(error);
                }
                Err(_) => {}
            }
        }
    })
}
