//! Tells the outside what happened to graphs.
//!
//! One worker at a time, so that the events of a graph arrive in order. Its turn lasts as long as it lives: it
//! spreads new entries of the feed over the sinks, and each sink has a courier of its own ([`crate::outbound`]).
//! When the worker dies its turn runs out, and what it had sent and not recorded is sent again by the next. Where
//! nobody wants to hear anything, entries are marked and that is all: a sink hears what happens from its first day
//! on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use millstream_core::id::Name;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::every::{Undone, once};
use crate::metrics;
use crate::outbound::Sink;
use crate::outbound::courier::{Courier, FailureLog};
use crate::worker::Worker;

pub(crate) const DUTY: &str = "publish";
/// Another worker takes over when the one whose turn it is was not heard of for so long.
const TURN: Duration = Duration::from_secs(15);
/// How often others look whether it is their turn.
const WAIT: Duration = Duration::from_secs(5);
/// How often entries are marked where nobody wants them.
const IDLE: Duration = Duration::from_secs(30);
/// How often the feed is looked at, and how soon what failed is begun anew.
const LOOK: Duration = Duration::from_millis(250);
const MEASURE: Duration = Duration::from_secs(5);
/// Entries spread in one transaction.
const PAGE: usize = 500;

pub(crate) async fn run(worker: Arc<Worker>) {
    while !worker.stop.is_cancelled() {
        once(&worker, "publish", turn(&worker)).await;
        let wait = if worker.deps.sinks.is_empty() { IDLE } else { WAIT };
        pause(&worker.stop, worker.around(wait)).await;
    }
}

async fn turn(worker: &Worker) -> Result<(), Undone> {
    let (workers, me) = (&worker.deps.stores.workers, &worker.options.worker);
    if workers.take_duty(DUTY, me, TURN, worker.now()).await?.is_none() {
        return Ok(());
    }
    if worker.deps.sinks.is_empty() {
        while spread(worker, &[]).await? == PAGE
            && !worker.stop.is_cancelled()
            && workers.take_duty(DUTY, me, TURN, worker.now()).await?.is_some()
        {}
    } else {
        publish(worker).await;
    }
    Ok(workers.finish_duty(DUTY, me, worker.now()).await?)
}

/// Until the worker stops, or has lost its turn.
async fn publish(worker: &Worker) {
    let sinks = &worker.deps.sinks;
    let news: Vec<Notify> = sinks.iter().map(|_| Notify::new()).collect();
    let couriers = sinks.iter().zip(&news).map(|(sink, news)| tell(worker, sink, news));
    let telling = async {
        tokio::join!(join_all(couriers), spread_all(worker, &news), measure_all(worker));
    };
    tokio::select! {
        () = telling => {}
        () = keep_turn(worker) => {
            tracing::warn!("lost the turn to tell others of graphs; what was under way may be told twice");
        }
    }
}

/// Ends when the turn is over.
async fn keep_turn(worker: &Worker) {
    let (workers, me) = (&worker.deps.stores.workers, &worker.options.worker);
    let mut taken = Instant::now();
    while taken.elapsed() < TURN {
        tokio::time::sleep(TURN / 5).await;
        let asked = Instant::now();
        match workers.take_duty(DUTY, me, TURN, worker.now()).await {
            Ok(Some(_)) => taken = asked,
            Ok(None) => return,
            Err(error) => worker.store_outage.met(&error),
        }
    }
}

async fn tell(worker: &Worker, sink: &Arc<dyn Sink>, news: &Notify) {
    let mut log = FailureLog::default();
    while !worker.stop.is_cancelled() {
        let mut courier = Courier::new(worker, Arc::clone(sink), log);
        once(worker, "publish", courier.run(news, &worker.stop)).await;
        log = courier.into_log();
        pause(&worker.stop, worker.around(4 * LOOK)).await;
    }
}

async fn spread_all(worker: &Worker, news: &[Notify]) {
    let sinks: Vec<Name> = worker.deps.sinks.iter().map(|sink| sink.name().clone()).collect();
    while !worker.stop.is_cancelled() {
        let mut spread_now = 0;
        once(worker, "publish", async {
            spread_now = spread(worker, &sinks).await?;
            Ok(())
        })
        .await;
        if spread_now > 0 {
            news.iter().for_each(Notify::notify_one);
        }
        if spread_now < PAGE {
            pause(&worker.stop, worker.around(LOOK)).await;
        }
    }
}

async fn spread(worker: &Worker, sinks: &[Name]) -> Result<usize, Undone> {
    Ok(worker.deps.stores.outbox.spread(sinks, PAGE, worker.now()).await?)
}

/// Says how far behind the sinks are; one that is up to date, or no business of this worker any more, is at zero.
async fn measure_all(worker: &Worker) {
    let mut behind = Behind(worker.deps.sinks.iter().map(|sink| sink.name().clone()).collect());
    while !worker.stop.is_cancelled() {
        once(worker, "publish", async {
            behind.measure(worker).await?;
            Ok(())
        })
        .await;
        pause(&worker.stop, worker.around(MEASURE)).await;
    }
}

/// Every sink that was measured.
struct Behind(BTreeSet<Name>);

impl Behind {
    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
    async fn measure(&mut self, worker: &Worker) -> Result<(), Undone> {
        let backlogs = worker.deps.stores.outbox.backlogs().await?;
        let now = worker.now();
        self.0.extend(backlogs.iter().map(|backlog| backlog.sink.clone()));
        for sink in &self.0 {
            let backlog = backlogs.iter().find(|backlog| backlog.sink == *sink);
            let (entries, graphs, seconds) = backlog.map_or((0, 0, 0.0), |backlog| {
                (backlog.entries, backlog.executions, now.since(backlog.oldest).as_secs_f64())
            });
            set(sink, entries as f64, graphs as f64, seconds);
        }
        Ok(())
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.0.iter().for_each(|sink| set(sink, 0.0, 0.0, 0.0));
    }
}

fn set(sink: &Name, entries: f64, graphs: f64, seconds: f64) {
    let sink = sink.as_str();
    ::metrics::gauge!(metrics::PUBLISH_LAG_ENTRIES, "sink" => sink.to_owned()).set(entries);
    ::metrics::gauge!(metrics::PUBLISH_LAG_GRAPHS, "sink" => sink.to_owned()).set(graphs);
    ::metrics::gauge!(metrics::PUBLISH_LAG_SECONDS, "sink" => sink.to_owned()).set(seconds);
}

async fn pause(stop: &CancellationToken, length: Duration) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}
