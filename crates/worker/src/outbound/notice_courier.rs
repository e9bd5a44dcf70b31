//! Delivers notices of runs and items to one sink, while this worker holds the publishing turn.
//!
//! Notices are few: one request at a time, of as many as fit. The store hands out one notice of a subject at
//! a time, so their order holds however they are sent. A refused notice is deferred, and goes alone the next
//! time, because the culprit in a batch is unknown.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::StoreResult;
use millstream_store::notices::{DueNotice, NoticeBackoff};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cloud_event::CloudEvent;
use super::sink::{Sink, SinkLoad};
use super::sink_health::{FailureLog, SinkHealth, refusal_backoff};
use crate::environment::WorkerEnvironment;

/// Notices read at once.
const PAGE: usize = 100;
/// How long to wait for a wake-up before the next poll.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit of a request under way when the worker stops.
const FINISH: Duration = Duration::from_secs(1);

pub(crate) struct NoticeCourier<'a> {
    env: &'a WorkerEnvironment,
    sink: Arc<dyn Sink>,
    standing: SinkHealth,
}

impl<'a> NoticeCourier<'a> {
    pub(crate) fn new(env: &'a WorkerEnvironment, sink: Arc<dyn Sink>, log: FailureLog) -> Self {
        Self { env, sink, standing: SinkHealth::new(log) }
    }

    pub(crate) fn into_log(self) -> FailureLog {
        self.standing.into_log()
    }

    /// Runs until `stop`. An error comes from the store: the caller starts again.
    pub(crate) async fn run(&mut self, news: &Notify, stop: &CancellationToken) -> StoreResult<()> {
        while !stop.is_cancelled() {
            let rest = self.standing.paused_until();
            if rest.is_none() && self.send_due(stop).await? > 0 {
                continue;
            }
            let again = self.standing.paused_until();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(|| Instant::now() + LOOK)) => {}
                () = news.notified(), if again.is_none() => {}
            }
        }
        Ok(())
    }

    /// Sends due notices until the sink refuses. Returns their number.
    async fn send_due(&mut self, stop: &CancellationToken) -> StoreResult<usize> {
        let (notices, sink) = (&self.env.stores.notices, Arc::clone(&self.sink));
        let due = notices.due_notices(sink.name(), PAGE, self.env.now()).await?;
        let found = due.len();
        let wants = |one: &DueNotice| sink.event_filter().accepts_type(one.notice.kind.as_str());
        let (due, unwanted): (Vec<DueNotice>, Vec<DueNotice>) = due.into_iter().partition(wants);
        if !unwanted.is_empty() {
            notices.delete_delivered_notices(sink.name(), &notice_positions(&unwanted)).await?;
        }
        for batch in pack_notices(due, sink.source(), sink.load_limits()) {
            let events: Vec<CloudEvent> = batch.iter().map(|(event, _)| event.clone()).collect();
            let stopping = async {
                stop.cancelled().await;
                tokio::time::sleep(FINISH).await;
            };
            let refusal = tokio::select! {
                biased;
                sent = sink.send_events(&events) => sent.err(),
                // A slower request is sent again by the next courier.
                () = stopping => return Ok(found),
            };
            let sent = if refusal.is_some() { 0 } else { events.len() };
            self.standing.record_batch(self.env, sink.name(), sent, refusal.as_ref());
            let batch: Vec<DueNotice> = batch.into_iter().map(|(_, notice)| notice).collect();
            if refusal.is_none() {
                notices.delete_delivered_notices(sink.name(), &notice_positions(&batch)).await?;
            } else if self.standing.paused_until().is_none() {
                let later: Vec<NoticeBackoff> = batch.iter().map(|one| self.defer_notice(one)).collect();
                notices.postpone_notices(sink.name(), &later).await?;
            } else {
                break;
            }
        }
        Ok(found)
    }

    fn defer_notice(&self, notice: &DueNotice) -> NoticeBackoff {
        let attempts = notice.attempts.saturating_add(1);
        let until = self.env.now().plus(refusal_backoff(self.env, attempts));
        NoticeBackoff { position: notice.position, until, attempts }
    }
}

fn notice_positions(notices: &[DueNotice]) -> Vec<i64> {
    notices.iter().map(|notice| notice.position).collect()
}

/// Keeps the order and fills each request up to the load; a refused notice goes alone.
fn pack_notices(due: Vec<DueNotice>, source: &str, load: SinkLoad) -> Vec<Vec<(CloudEvent, DueNotice)>> {
    let mut batches: Vec<Vec<(CloudEvent, DueNotice)>> = Vec::new();
    // Index of the batch that may still grow, and its size.
    let mut open: Option<usize> = None;
    for notice in due {
        let event = CloudEvent::of_notice(source, &notice);
        let bytes = event.approximate_bytes();
        let alone = notice.attempts > 0;
        let room = open.filter(|weighed| weighed + bytes <= load.bytes && !alone);
        match (room, batches.last_mut()) {
            (Some(weighed), Some(batch)) if batch.len() < load.events => {
                batch.push((event, notice));
                open = Some(weighed + bytes);
            }
            (Some(_) | None, _) => {
                batches.push(vec![(event, notice)]);
                open = (!alone).then_some(bytes);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use millstream_model::id::TenantId;
    use millstream_model::notice::{Notice, NoticeKind};
    use millstream_model::raw::RawJson;
    use millstream_model::time::Timestamp;

    use super::*;

    fn notice(position: i64, attempts: u32, bytes: usize) -> DueNotice {
        let data = RawJson::from_value(&"x".repeat(bytes));
        let notice = Notice {
            kind: NoticeKind::RunFailed,
            subject: format!("r-{position}"),
            at: Timestamp::EPOCH,
            data,
        };
        DueNotice { position, tenant: TenantId::default_tenant(), notice, attempts }
    }

    #[test]
    fn notice_batch_isolates_refused_notice() {
        let load = SinkLoad { requests: 1, events: 2, bytes: 2_000 };
        let due = [(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 2, 1), (5, 0, 1_500), (6, 0, 1_500), (7, 0, 9_000)];
        let due = due.map(|(position, attempts, bytes)| notice(position, attempts, bytes)).into();
        let packed: Vec<Vec<i64>> = pack_notices(due, "/s", load)
            .iter()
            .map(|batch| batch.iter().map(|(_, notice)| notice.position).collect())
            .collect();
        assert_eq!(packed, [vec![1, 2], vec![3], vec![4], vec![5], vec![6], vec![7]]);
    }
}
