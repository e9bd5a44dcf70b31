//! The metrics page: gauges of the store and the stream are read when a scraper asks.

use std::time::Duration;

use bytes::Bytes;
use millstream_store::backlog_gauges;

use crate::process_metrics;
use crate::state::IngressState;

/// How long a scrape waits for the store and the stream before it renders without their gauges.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the gauges of the store and the stream, then renders the page.
pub(super) async fn render_scrape(door: &IngressState) -> Bytes {
    let (backlog, lanes) = tokio::join!(
        tokio::time::timeout(PATIENCE, door.stores.event_views.count_backlog()),
        tokio::time::timeout(PATIENCE, door.streams.care.lane_stats()),
    );
    if let Ok(Ok(backlog)) = backlog {
        let age = backlog.oldest.map_or(Duration::ZERO, |oldest| door.clock.now().since(oldest));
        set_gauge(backlog_gauges::UNDECIDED_EVENTS, backlog.undecided);
        metrics::gauge!(backlog_gauges::OLDEST_UNDECIDED_SECONDS).set(age.as_secs_f64());
        set_gauge(backlog_gauges::DEAD_EVENTS, backlog.dead);
        set_gauge(backlog_gauges::PAUSED_EXECUTIONS, backlog.paused);
        set_gauge(backlog_gauges::OPEN_INCIDENTS, backlog.incidents);
        set_gauge(backlog_gauges::OPEN_ACTIONS, backlog.open_actions);
    }
    if let Ok(Ok(lanes)) = lanes {
        for stats in lanes {
            let lane = stats.lane.number().to_string();
            for (name, value) in [
                ("millstream_stream_length", stats.length),
                ("millstream_stream_pending", stats.pending),
                ("millstream_stream_lag", stats.lag),
            ] {
                #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
                metrics::gauge!(name, "lane" => lane.clone()).set(value as f64);
            }
        }
    }
    let page = door.metrics_page.render_shared().await;
    [page, Bytes::from(process_metrics::render_process_metrics())].concat().into()
}

fn set_gauge(name: &'static str, value: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    metrics::gauge!(name).set(value as f64);
}
