//! Redis check at the start of a worker, repeated until Redis answers.
//!
//! A Redis with eviction loses streams and their consumer groups silently, so a worker refuses it. A worker
//! that starts before its Redis must not skip the check, so it is repeated until there is an answer.

use std::time::Duration;

use millstream_stream::{StreamError, StreamHandles};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const AGAIN: Duration = Duration::from_secs(1);

/// Result of one check.
#[derive(Debug)]
pub enum RedisCheck {
    Usable,
    /// Redis did not answer.
    NotYet,
}

/// Checks once. Fails if Redis answers and is not usable.
pub async fn check_redis(streams: &StreamHandles) -> Result<RedisCheck, StreamError> {
    match streams.care.check_server().await {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            Ok(RedisCheck::Usable)
        }
        Err(error @ StreamError::Unusable(_)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "Redis does not answer yet");
            Ok(RedisCheck::NotYet)
        }
    }
}

/// Repeats the check until Redis answers. If Redis is not usable, the worker drains, and the task returns the
/// error.
pub fn check_redis_later(
    streams: StreamHandles,
    shutdown: CancellationToken,
) -> JoinHandle<Option<StreamError>> {
    tokio::spawn(async move {
        loop {
            let asked = async {
                tokio::time::sleep(AGAIN).await;
                streams.care.check_server().await
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
