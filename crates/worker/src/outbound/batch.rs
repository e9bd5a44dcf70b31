//! Batching of outbound events: shares of several graphs in one request, or one graph's in several.
//!
//! A graph is in one batch at a time, so its events arrive in order. A refused batch delays all graphs in it,
//! and the culprit is unknown: the next time each of them is sent alone.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_store::outbox::HandedOver;

use super::cloud_event::CloudEvent;
use super::share::Share;
use super::sink::{Load, Refusal, Sink};

#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) shares: Vec<Share>,
}

/// Outcome of a batch.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) shares: Vec<Share>,
    /// Number of events accepted, counted from the first.
    pub(crate) sent: usize,
    pub(crate) refusal: Option<Refusal>,
}

/// Keeps the order of the shares and fills each batch up to the load.
pub(crate) fn pack(shares: Vec<Share>, load: Load) -> VecDeque<Batch> {
    let mut batches: VecDeque<Batch> = VecDeque::new();
    // The batch that may still grow is the last, if there is one.
    let mut open: Option<(usize, usize)> = None;
    for share in shares {
        let (events, bytes) = (share.events.len(), share.bytes);
        let fits = |(had, weighed): (usize, usize)| {
            had + events <= load.events && weighed + bytes <= load.bytes && share.attempts == 0
        };
        let alone = !fits((0, 0));
        match (open.filter(|open| fits(*open)), batches.back_mut()) {
            (Some((had, weighed)), Some(batch)) => {
                batch.shares.push(share);
                open = Some((had + events, weighed + bytes));
            }
            (Some(_) | None, _) => {
                batches.push_back(Batch { shares: vec![share] });
                open = if alone { None } else { Some((events, bytes)) };
            }
        }
    }
    batches
}

/// Sends all events, in as many requests as necessary, up to the first refusal.
pub(crate) async fn deliver(sink: Arc<dyn Sink>, batch: Batch) -> Delivered {
    let Batch { shares } = batch;
    let load = sink.load();
    let events: Vec<CloudEvent> = shares.iter().flat_map(|share| share.events.iter().cloned()).collect();
    let (mut sent, mut refusal) = (0, None);
    while sent < events.len() {
        let count = fitting(&events[sent..], load);
        match sink.send(&events[sent..sent + count]).await {
            Ok(()) => sent += count,
            Err(refused) => {
                refusal = Some(refused);
                break;
            }
        }
    }
    Delivered { shares, sent, refusal }
}

/// How many of these fit into one request; at least one.
fn fitting(events: &[CloudEvent], load: Load) -> usize {
    let mut bytes = 0;
    let fits = |event: &&CloudEvent| {
        bytes += event.bytes();
        bytes <= load.bytes
    };
    events.iter().take(load.events).take_while(fits).count().max(1)
}

/// Progress of a graph.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) share: Share,
    pub(crate) heard: Option<HandedOver>,
    /// A part of it was refused and is left.
    pub(crate) is_held: bool,
}

impl Delivered {
    /// Progress of each graph of the batch.
    pub(crate) fn came(self) -> Vec<Came> {
        let mut left = self.sent;
        let mut came = Vec::with_capacity(self.shares.len());
        for share in self.shares {
            let sent = left.min(share.events.len());
            left -= sent;
            let is_held = sent < share.events.len();
            came.push(Came { heard: share.heard(sent), is_held, share });
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load { requests: 1, events: 5, bytes: 1000 };

    fn packed(shares: Vec<Share>) -> Vec<Vec<String>> {
        let names =
            |batch: Batch| batch.shares.iter().map(|share| share.graph.execution.to_string()).collect();
        pack(shares, LOAD).into_iter().map(names).collect()
    }

    #[test]
    fn graphs_share_a_request_as_long_as_they_fit() {
        let shares = ["a", "b", "c", "d"].map(|graph| Share::sample(graph, 0, &[2], 100));
        assert_eq!(packed(shares.into()), [["a", "b"], ["c", "d"]]);
        let heavy = ["a", "b", "c"].map(|graph| Share::sample(graph, 0, &[1], 400));
        assert_eq!(packed(heavy.into()), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn who_was_refused_or_is_too_large_goes_alone() {
        let shares = vec![
            Share::sample("a", 0, &[1], 1),
            Share::sample("refused", 1, &[1], 1),
            Share::sample("large", 0, &[6], 1),
            Share::sample("b", 0, &[1], 1),
            Share::sample("c", 0, &[1], 1),
        ];
        assert_eq!(packed(shares), [vec!["a"], vec!["refused"], vec!["large"], vec!["b", "c"]]);
    }

    #[test]
    fn what_was_sent_is_counted_from_the_first_graph_on() {
        let shares = ["a", "b", "c"].map(|graph| Share::sample(graph, 0, &[1, 1], 1)).into();
        let came = Delivered { shares, sent: 3, refusal: None }.came();
        let entries: Vec<_> =
            came.iter().map(|came| came.heard.as_ref().map(|heard| heard.entries)).collect();
        assert_eq!(entries, [Some(2), Some(1), None]);
        assert_eq!(came.iter().map(|came| came.is_held).collect::<Vec<_>>(), [false, true, true]);
    }
}
