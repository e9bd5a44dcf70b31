//! The task that keeps quotas and counts up to date.

use std::sync::Arc;

use millstream_store::quota_book::REFRESH_EVERY;
use tokio_util::sync::CancellationToken;

use super::TenantQuotas;

/// Runs until `closing`. A store that is away leaves what is known as it is.
pub(crate) async fn follow(quotas: Arc<TenantQuotas>, closing: CancellationToken) {
    loop {
        let look = async {
            quotas.book.refresh(&*quotas.store).await?;
            quotas.recount_due().await
        };
        tokio::select! {
            looked = look => {
                if let Err(error) = looked {
                    tracing::debug!(%error, "quotas could not be read; the last known ones hold");
                }
            }
            () = closing.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(REFRESH_EVERY) => {}
            () = closing.cancelled() => return,
        }
    }
}
