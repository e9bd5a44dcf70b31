//! Synchronizes the ingress clock with the store's, so that times of acceptance agree with the workers'.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::clock::Clock;
use millstream_store::housekeeping::Housekeeping;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval of the synchronization; clocks drift by milliseconds in this time.
const EVERY: Duration = Duration::from_secs(30);

/// Synchronizes until `closing` is cancelled. A store that does not answer changes nothing.
pub(crate) async fn follow_store_clock(
    store: Arc<dyn Housekeeping>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let asked = Instant::now();
        if let Ok(Ok(store_time)) = tokio::time::timeout(EVERY, store.ping()).await {
            clock.follow_store(store_time, asked.elapsed());
        }
    }
}
