//! Publishes the events of graphs, runs and items to the sinks.
//!
//! One worker at a time (a leader), so that the events of a subject arrive in order. Its turn lasts as long
//! as it lives: it spreads new feed entries, and notices, over the sinks, and each sink has couriers of its
//! own ([`crate::outbound`]). When the worker dies its turn runs out, and the next worker sends again what
//! was sent and not recorded. Without sinks the entries are marked and the notices removed: a new sink
//! receives the events from its first day on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;
use futures::future::join_all;
use millstream_model::id::Name;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::periodic::{DutyError, run_once};
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::outbound::Sink;
use crate::outbound::graph_courier::GraphCourier;
use crate::outbound::notice_courier::NoticeCourier;
use crate::outbound::sink_health::FailureLog;

pub(crate) const DUTY: &str = "publish";
/// Another worker takes over when the leader was silent for this long.
const TURN: Duration = Duration::from_secs(15);
/// How often the other workers try to become the leader.
const WAIT: Duration = Duration::from_secs(5);
/// How often entries are marked when there are no sinks.
const IDLE: Duration = Duration::from_secs(30);
/// How often the feed is polled, and the delay before a retry.
const LOOK: Duration = Duration::from_millis(250);
const MEASURE: Duration = Duration::from_secs(5);
/// Entries spread in one transaction.
const PAGE: usize = 500;

pub(crate) async fn run_publisher(env: Arc<WorkerEnvironment>, sinks: Vec<Arc<dyn Sink>>) {
    while !env.stop.is_cancelled() {
        run_once(&env, "publish", publish_as_leader(&env, &sinks)).await;
        let wait = if sinks.is_empty() { IDLE } else { WAIT };
        pause_unless_stopped(&env.stop, env.jittered(wait)).await;
    }
}

async fn publish_as_leader(env: &WorkerEnvironment, sinks: &[Arc<dyn Sink>]) -> Result<(), DutyError> {
    let (workers, me) = (&env.stores.workers, &env.options.worker);
    if workers.take_duty(DUTY, me, TURN, env.now()).await?.is_none() {
        return Ok(());
    }
    if sinks.is_empty() {
        while spread_page(env, &[]).await?.is_more()
            && !env.stop.is_cancelled()
            && workers.take_duty(DUTY, me, TURN, env.now()).await?.is_some()
        {}
    } else {
        publish_to_sinks(env, sinks).await;
    }
    Ok(workers.finish_duty(DUTY, me, env.now()).await?)
}

/// Runs until the worker stops or loses its turn.
async fn publish_to_sinks(env: &WorkerEnvironment, sinks: &[Arc<dyn Sink>]) {
    let news: Vec<CourierWakeups> = sinks.iter().map(|_| CourierWakeups::default()).collect();
    let couriers = sinks.iter().zip(&news).map(|(sink, news)| async {
        tokio::join!(
            run_graph_courier(env, sink, &news.entries),
            run_notice_courier(env, sink, &news.notices)
        );
    });
    let telling = async {
        tokio::join!(join_all(couriers), spread_continuously(env, sinks, &news), measure_lags(env, sinks));
    };
    tokio::select! {
        () = telling => {}
        () = hold_leadership(env) => {
            tracing::warn!("lost the lease on publishing; events in flight may be sent twice");
        }
    }
}

/// Returns when the turn is lost.
async fn hold_leadership(env: &WorkerEnvironment) {
    let (workers, me) = (&env.stores.workers, &env.options.worker);
    let mut taken = Instant::now();
    while taken.elapsed() < TURN {
        tokio::time::sleep(TURN / 5).await;
        let asked = Instant::now();
        match workers.take_duty(DUTY, me, TURN, env.now()).await {
            Ok(Some(_)) => taken = asked,
            Ok(None) => return,
            Err(error) => env.store_outage.record_failure(&error),
        }
    }
}

async fn run_graph_courier(env: &WorkerEnvironment, sink: &Arc<dyn Sink>, news: &Notify) {
    let mut log = FailureLog::default();
    while !env.stop.is_cancelled() {
        let mut courier = GraphCourier::new(env, Arc::clone(sink), log);
        run_once(env, "publish", courier.run(news, &env.stop).err_into()).await;
        log = courier.into_log();
        pause_unless_stopped(&env.stop, env.jittered(4 * LOOK)).await;
    }
}

async fn run_notice_courier(env: &WorkerEnvironment, sink: &Arc<dyn Sink>, news: &Notify) {
    let mut log = FailureLog::default();
    while !env.stop.is_cancelled() {
        let mut courier = NoticeCourier::new(env, Arc::clone(sink), log);
        run_once(env, "publish", courier.run(news, &env.stop).err_into()).await;
        log = courier.into_log();
        pause_unless_stopped(&env.stop, env.jittered(4 * LOOK)).await;
    }
}

/// Wakes the couriers of a sink.
#[derive(Default)]
struct CourierWakeups {
    entries: Notify,
    notices: Notify,
}

#[derive(Default)]
struct SpreadCounts {
    entries: usize,
    notices: usize,
}

impl SpreadCounts {
    const fn is_more(&self) -> bool {
        self.entries == PAGE || self.notices == PAGE
    }
}

async fn spread_continuously(env: &WorkerEnvironment, sinks: &[Arc<dyn Sink>], news: &[CourierWakeups]) {
    let sinks: Vec<Name> = sinks.iter().map(|sink| sink.name().clone()).collect();
    while !env.stop.is_cancelled() {
        let mut spread_now = SpreadCounts::default();
        run_once(env, "publish", async {
            spread_now = spread_page(env, &sinks).await?;
            Ok(())
        })
        .await;
        if spread_now.entries > 0 {
            news.iter().for_each(|news| news.entries.notify_one());
        }
        if spread_now.notices > 0 {
            news.iter().for_each(|news| news.notices.notify_one());
        }
        if !spread_now.is_more() {
            pause_unless_stopped(&env.stop, env.jittered(LOOK)).await;
        }
    }
}

async fn spread_page(env: &WorkerEnvironment, sinks: &[Name]) -> Result<SpreadCounts, DutyError> {
    let (stores, now) = (&env.stores, env.now());
    let notices = stores.notices.spread_notices(sinks, PAGE, now).await?;
    let entries = stores.outbox.spread_entries(sinks, PAGE, now).await?;
    Ok(SpreadCounts { entries, notices })
}

/// Measures the lag of the sinks; a sink that is up to date, or no longer served by this worker, is at zero.
async fn measure_lags(env: &WorkerEnvironment, sinks: &[Arc<dyn Sink>]) {
    let mut behind = SinkLagGauges(sinks.iter().map(|sink| sink.name().clone()).collect());
    while !env.stop.is_cancelled() {
        run_once(env, "publish", async {
            behind.measure_sinks(env).await?;
            Ok(())
        })
        .await;
        pause_unless_stopped(&env.stop, env.jittered(MEASURE)).await;
    }
}

/// Every sink that was measured.
struct SinkLagGauges(BTreeSet<Name>);

impl SinkLagGauges {
    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
    async fn measure_sinks(&mut self, env: &WorkerEnvironment) -> Result<(), DutyError> {
        let stores = &env.stores;
        let (graphs, notices) =
            (stores.outbox.count_backlogs().await?, stores.notices.notice_backlogs().await?);
        let now = env.now();
        self.0.extend(graphs.iter().map(|backlog| backlog.sink.clone()));
        self.0.extend(notices.iter().map(|backlog| backlog.sink.clone()));
        for sink in &self.0 {
            let graphs = graphs.iter().find(|backlog| backlog.sink == *sink);
            let notices = notices.iter().find(|backlog| backlog.sink == *sink);
            let oldest = graphs.map(|backlog| backlog.oldest).into_iter();
            let oldest = oldest.chain(notices.map(|backlog| backlog.oldest)).min();
            let lag = SinkLag {
                entries: graphs.map_or(0, |backlog| backlog.entries) as f64,
                graphs: graphs.map_or(0, |backlog| backlog.executions) as f64,
                notices: notices.map_or(0, |backlog| backlog.notices) as f64,
                seconds: oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
            };
            lag.record_gauges(sink);
        }
        Ok(())
    }
}

impl Drop for SinkLagGauges {
    fn drop(&mut self) {
        self.0.iter().for_each(|sink| SinkLag::default().record_gauges(sink));
    }
}

#[derive(Default)]
struct SinkLag {
    entries: f64,
    graphs: f64,
    notices: f64,
    seconds: f64,
}

impl SinkLag {
    fn record_gauges(&self, sink: &Name) {
        let set = |gauge: &'static str, value: f64| {
            ::metrics::gauge!(gauge, "sink" => sink.as_str().to_owned()).set(value);
        };
        set(metrics::PUBLISH_LAG_ENTRIES, self.entries);
        set(metrics::PUBLISH_LAG_GRAPHS, self.graphs);
        set(metrics::PUBLISH_LAG_NOTICES, self.notices);
        set(metrics::PUBLISH_LAG_SECONDS, self.seconds);
    }
}

async fn pause_unless_stopped(stop: &CancellationToken, length: Duration) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}
