//! The task that refreshes quotas and counts.

use std::sync::Arc;

use millstream_store::quota_cache::REFRESH_EVERY;
use tokio_util::sync::CancellationToken;

use super::TenantQuotas;

/// Runs until `closing`. While the store is unavailable, the last known quotas stay in effect.
pub(crate) async fn refresh_quotas(quotas: Arc<TenantQuotas>, closing: CancellationToken) {
    loop {
        let look = async {
            quotas.book.refresh(&*quotas.store).await?;
            quotas.recount_due().await
        };
        tokio::select! {
            looked = look => {
                if let Err(error) = looked {
                    tracing::debug!(%error, "reading quotas failed; the last known ones stay in effect");
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
