//! The next events of one graph for a sink: feed entries, and the events made from them.

use std::collections::VecDeque;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::time::Timestamp;
use millstream_store::feed::{FeedContent, FeedEntry};
use millstream_store::outbox::{DeliveredParcel, FeedParcel, SinkPosition};
use millstream_store::views::ExecutionViews;
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::graph_machine::transition_notices;
use millstream_workflow::log::Transition;

use super::cloud_event::{CloudEvent, DispatchedAttempt, EventPosition, OutboundEvent};
use super::sink::Sink;

/// Transitions read at once.
const PAGE: usize = 100;
/// Events are taken up to this size; the rest waits for the next turn.
const BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct GraphShare {
    pub(crate) graph: ExecutionKey,
    from: SinkPosition,
    /// How often it was deferred.
    pub(crate) attempts: u32,
    entries: Vec<DeliveredEntry>,
    pub(crate) events: Vec<CloudEvent>,
    /// For each event: the number of things of its entry that are delivered with it.
    parts: Vec<u32>,
    pub(crate) bytes: usize,
}

/// How much of an entry fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryFit {
    Whole,
    Part,
}

/// An entry is delivered with the event before `end`.
#[derive(Debug, Clone, Copy)]
struct DeliveredEntry {
    position: i64,
    at: Timestamp,
    end: usize,
}

impl GraphShare {
    /// As much of a parcel as may be sent at once; events that the sink does not subscribe to are left out.
    pub(crate) async fn of_parcel(
        parcel: FeedParcel,
        sink: &dyn Sink,
        views: &dyn ExecutionViews,
    ) -> StoreResult<Self> {
        let FeedParcel { execution, heard, upto, attempts, entries } = parcel;
        let mut log = GraphLogReader { views, graph: &execution, page: VecDeque::new() };
        let mut share = Self {
            graph: execution.clone(),
            from: heard,
            attempts,
            entries: Vec::with_capacity(entries.len()),
            events: Vec::new(),
            parts: Vec::new(),
            bytes: 0,
        };
        if entries.is_empty() {
            // Retention has removed the graph meanwhile.
            share.entries.push(DeliveredEntry { position: upto, at: Timestamp::EPOCH, end: 0 });
        }
        for entry in &entries {
            if share.bytes >= BYTES || share.take_entry(entry, sink, &mut log).await? == EntryFit::Part {
                break;
            }
        }
        Ok(share)
    }

    async fn take_entry(
        &mut self,
        entry: &FeedEntry,
        sink: &dyn Sink,
        log: &mut GraphLogReader<'_>,
    ) -> StoreResult<EntryFit> {
        let mut index = 0;
        match &entry.what {
            FeedContent::Transitions { first, last } => {
                let mut next = *first;
                while next <= *last {
                    let Some(transition) = log.transition_at(next).await? else { break };
                    for notice in transition_notices(&transition) {
                        if self.bytes >= BYTES {
                            return Ok(EntryFit::Part);
                        }
                        let place = EventPosition { position: entry.position, index };
                        let what = OutboundEvent::Noticed(notice);
                        self.push_event(sink, place, transition.at, Some(transition.seq), &what);
                        index += 1;
                    }
                    next = next.next();
                }
            }
            FeedContent::Dispatched(list) => {
                let dispatched: Vec<DispatchedAttempt> = list.decode().map_err(|error| {
                    StoreError::Corrupt(format!("dispatches of {}: {error}", self.graph.execution))
                })?;
                for dispatched in dispatched {
                    if self.bytes >= BYTES {
                        return Ok(EntryFit::Part);
                    }
                    let place = EventPosition { position: entry.position, index };
                    self.push_event(sink, place, entry.at, None, &OutboundEvent::of_dispatch(dispatched));
                    index += 1;
                }
            }
        }
        self.entries.push(DeliveredEntry { position: entry.position, at: entry.at, end: self.events.len() });
        Ok(EntryFit::Whole)
    }

    fn push_event(
        &mut self,
        sink: &dyn Sink,
        place: EventPosition,
        at: Timestamp,
        seq: Option<Seq>,
        what: &OutboundEvent,
    ) {
        let part = u32::try_from(place.index).unwrap_or(u32::MAX).saturating_add(1);
        let was_heard = self.entries.is_empty() && part <= self.from.part;
        if !was_heard && sink.event_filter().accepts_type(what.event_type()) {
            let event = CloudEvent::new(sink.source(), &self.graph, place, at, seq, what);
            self.bytes += event.approximate_bytes();
            self.events.push(event);
            self.parts.push(part);
        }
    }

    /// Position of the sink after it has accepted the first `sent` events; `None` if unchanged.
    pub(crate) fn position_after(&self, sent: usize) -> Option<DeliveredParcel> {
        let entries = self.entries.iter().take_while(|told| told.end <= sent).count();
        let last = entries.checked_sub(1).and_then(|last| self.entries.get(last));
        let (position, end, part) =
            last.map_or((self.from.position, 0, self.from.part), |last| (last.position, last.end, 0));
        // Some events of the next entry.
        let part =
            sent.checked_sub(1).filter(|_| sent > end).and_then(|last| self.parts.get(last)).unwrap_or(&part);
        let to = SinkPosition { position, part: *part };
        let at = last.or(self.entries.first()).map_or(Timestamp::EPOCH, |told| told.at);
        let handed = DeliveredParcel { execution: self.graph.clone(), from: self.from, to, entries, at };
        (to != self.from).then_some(handed)
    }
}

/// The log of a graph, read a page ahead.
struct GraphLogReader<'a> {
    views: &'a dyn ExecutionViews,
    graph: &'a ExecutionKey,
    page: VecDeque<Transition>,
}

impl GraphLogReader<'_> {
    /// `None` for a graph that is gone.
    async fn transition_at(&mut self, seq: Seq) -> StoreResult<Option<Transition>> {
        while self.page.front().is_some_and(|transition| transition.seq < seq) {
            self.page.pop_front();
        }
        if self.page.front().is_none_or(|transition| transition.seq != seq) {
            let page = self.views.read_history(self.graph, Seq(seq.0 - 1), PAGE).await?;
            self.page = page.entries.into_iter().map(|entry| entry.transition).collect();
        }
        Ok(self.page.pop_front().filter(|transition| transition.seq == seq))
    }
}

#[cfg(test)]
impl GraphShare {
    /// With entries of `entries[i]` events each.
    pub(crate) fn sample_share(graph: &str, attempts: u32, entries: &[usize], bytes: usize) -> Self {
        use millstream_model::id::{ExecutionId, TenantId};
        use millstream_workflow::graph_machine::GraphTransitionNotice;
        let graph = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse(graph).unwrap(),
        };
        let (mut told, mut events, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (position, count) in (10_i64..).zip(entries) {
            for index in 0..*count {
                let place = EventPosition { position, index };
                let what = OutboundEvent::Noticed(GraphTransitionNotice::Completed);
                events.push(CloudEvent::new("/s", &graph, place, Timestamp::EPOCH, None, &what));
                parts.push(u32::try_from(index).unwrap() + 1);
            }
            told.push(DeliveredEntry { position, at: Timestamp::EPOCH, end: events.len() });
        }
        Self {
            graph,
            from: SinkPosition { position: 9, part: 0 },
            attempts,
            entries: told,
            events,
            parts,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GraphShare;

    fn heard(share: &GraphShare, sent: usize) -> Option<(i64, u32, usize)> {
        share.position_after(sent).map(|handed| (handed.to.position, handed.to.part, handed.entries))
    }

    #[test]
    fn entry_is_delivered_after_all_events() {
        let share = GraphShare::sample_share("g", 0, &[2, 0, 3, 0], 1);
        assert_eq!(heard(&share, 0), None);
        assert_eq!(heard(&share, 1), Some((9, 1, 0)), "a part of the first");
        assert_eq!(heard(&share, 2), Some((11, 0, 2)), "one without events goes with the one before it");
        assert_eq!(heard(&share, 4), Some((11, 2, 2)));
        assert_eq!(heard(&share, 5), Some((13, 0, 4)));
    }

    #[test]
    fn empty_share_is_delivered_at_once() {
        let share = GraphShare::sample_share("g", 0, &[0, 0], 0);
        assert_eq!(heard(&share, 0), Some((11, 0, 2)));
    }
}
