//! What a sink is to hear of one graph next: entries of the feed, and the events that they come to.

use std::collections::VecDeque;

use millstream_core::graph::notices;
use millstream_core::id::{ExecutionKey, Seq};
use millstream_core::log::Transition;
use millstream_core::time::Timestamp;
use millstream_store::feed::{Fed, FeedEntry};
use millstream_store::outbox::{HandedOver, Parcel};
use millstream_store::views::ExecutionViews;
use millstream_store::{Result, StoreError};

use super::cloud_event::{CloudEvent, Dispatched, Place, What};
use super::sink::Sink;

/// Transitions read at once.
const PAGE: usize = 100;
/// Entries are taken until their events weigh this much: the rest has to wait for its next turn.
const BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) graph: ExecutionKey,
    /// Where the sink is.
    from: i64,
    /// How often it was put off.
    pub(crate) attempts: u32,
    entries: Vec<Told>,
    pub(crate) events: Vec<CloudEvent>,
    pub(crate) bytes: usize,
}

/// An entry is told with the event before `end`.
#[derive(Debug, Clone, Copy)]
struct Told {
    position: i64,
    at: Timestamp,
    end: usize,
}

impl Share {
    /// Of a parcel, as much as may be sent at once; events that the sink does not want are left out.
    pub(crate) async fn of(parcel: Parcel, sink: &dyn Sink, views: &dyn ExecutionViews) -> Result<Self> {
        let Parcel { execution, told, upto, attempts, entries } = parcel;
        let mut log = Log { views, graph: &execution, page: VecDeque::new() };
        let mut share = Self {
            graph: execution.clone(),
            from: told,
            attempts,
            entries: Vec::with_capacity(entries.len()),
            events: Vec::new(),
            bytes: 0,
        };
        if entries.is_empty() {
            // Retention was faster.
            share.entries.push(Told { position: upto, at: Timestamp::EPOCH, end: 0 });
        }
        for entry in &entries {
            share.take(entry, sink, &mut log).await?;
            if share.bytes >= BYTES {
                break;
            }
        }
        Ok(share)
    }

    async fn take(&mut self, entry: &FeedEntry, sink: &dyn Sink, log: &mut Log<'_>) -> Result<()> {
        let mut index = 0;
        match &entry.what {
            Fed::Transitions { first, last } => {
                let mut next = *first;
                while next <= *last {
                    let Some(transition) = log.at(next).await? else { break };
                    for notice in notices(&transition) {
                        let place = Place { position: entry.position, index };
                        let what = What::Noticed(notice);
                        self.push(sink, place, transition.at, Some(transition.seq), &what);
                        index += 1;
                    }
                    next = next.next();
                }
            }
            Fed::Dispatched(list) => {
                let dispatched: Vec<Dispatched> = list.decode().map_err(|error| {
                    StoreError::Corrupt(format!("dispatches of {}: {error}", self.graph.execution))
                })?;
                for dispatched in dispatched {
                    let place = Place { position: entry.position, index };
                    self.push(sink, place, entry.at, None, &What::of_dispatch(dispatched));
                    index += 1;
                }
            }
        }
        self.entries.push(Told { position: entry.position, at: entry.at, end: self.events.len() });
        Ok(())
    }

    fn push(&mut self, sink: &dyn Sink, place: Place, at: Timestamp, seq: Option<Seq>, what: &What) {
        if sink.taste().wants(what.kind()) {
            let event = CloudEvent::new(sink.source(), &self.graph, place, at, seq, what);
            self.bytes += event.bytes();
            self.events.push(event);
        }
    }

    /// What the sink has heard once it has taken the first `sent` of the events; an entry counts as a whole.
    pub(crate) fn heard(&self, sent: usize) -> Option<HandedOver> {
        let entries = self.entries.iter().take_while(|told| told.end <= sent).count();
        let last = self.entries.get(entries.checked_sub(1)?)?;
        Some(HandedOver {
            execution: self.graph.clone(),
            from: self.from,
            to: last.position,
            entries,
            at: last.at,
        })
    }
}

/// The log of a graph, read a page ahead.
struct Log<'a> {
    views: &'a dyn ExecutionViews,
    graph: &'a ExecutionKey,
    page: VecDeque<Transition>,
}

impl Log<'_> {
    /// None of a graph that is gone.
    async fn at(&mut self, seq: Seq) -> Result<Option<Transition>> {
        while self.page.front().is_some_and(|transition| transition.seq < seq) {
            self.page.pop_front();
        }
        if self.page.front().is_none_or(|transition| transition.seq != seq) {
            let page = self.views.history(self.graph, Seq(seq.0 - 1), PAGE).await?;
            self.page = page.entries.into_iter().map(|entry| entry.transition).collect();
        }
        Ok(self.page.pop_front().filter(|transition| transition.seq == seq))
    }
}

#[cfg(test)]
impl Share {
    /// With entries of so many events each.
    pub(crate) fn sample(graph: &str, attempts: u32, entries: &[usize], bytes: usize) -> Self {
        use millstream_core::graph::Notice;
        use millstream_core::id::{ExecutionId, TenantId};
        let graph = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse(graph).unwrap(),
        };
        let (mut told, mut events) = (Vec::new(), Vec::new());
        for (position, count) in (10_i64..).zip(entries) {
            for index in 0..*count {
                let place = Place { position, index };
                let what = What::Noticed(Notice::Completed);
                events.push(CloudEvent::new("/s", &graph, place, Timestamp::EPOCH, None, &what));
            }
            told.push(Told { position, at: Timestamp::EPOCH, end: events.len() });
        }
        Self { graph, from: 9, attempts, entries: told, events, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn an_entry_was_heard_when_all_of_its_events_were() {
        let share = Share::sample("g", 0, &[2, 0, 3, 0], 1);
        let heard = |sent| share.heard(sent).map(|handed| (handed.from, handed.to, handed.entries));
        assert_eq!(heard(0), None);
        assert_eq!(heard(1), None);
        assert_eq!(heard(2), Some((9, 11, 2)), "one without events goes with the one before it");
        assert_eq!(heard(4), Some((9, 11, 2)));
        assert_eq!(heard(5), Some((9, 13, 4)));
    }

    #[test]
    fn a_share_without_events_was_heard_at_once() {
        let share = Share::sample("g", 0, &[0, 0], 0);
        assert_eq!(share.heard(0).map(|handed| (handed.to, handed.entries)), Some((11, 2)));
    }
}
