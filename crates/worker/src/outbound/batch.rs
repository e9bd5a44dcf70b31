//! Batching of outbound events: shares of several graphs in one request, or one graph's in several.
//!
//! A graph is in one batch at a time, so its events arrive in order. A refused batch delays all graphs in it,
//! and the culprit is unknown: the next time each of them is sent alone.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_store::outbox::DeliveredParcel;

use super::cloud_event::CloudEvent;
use super::graph_share::GraphShare;
use super::sink::{Sink, SinkLoad, SinkRefusal};

#[derive(Debug)]
pub(crate) struct OutboundBatch {
    pub(crate) shares: Vec<GraphShare>,
}

/// Outcome of a batch.
#[derive(Debug)]
pub(crate) struct DeliveredBatch {
    pub(crate) shares: Vec<GraphShare>,
    /// Number of events accepted, counted from the first.
    pub(crate) sent: usize,
    pub(crate) refusal: Option<SinkRefusal>,
}

/// Keeps the order of the shares and fills each batch up to the load.
pub(crate) fn pack_batches(shares: Vec<GraphShare>, load: SinkLoad) -> VecDeque<OutboundBatch> {
    let mut batches: VecDeque<OutboundBatch> = VecDeque::new();
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
                batches.push_back(OutboundBatch { shares: vec![share] });
                open = if alone { None } else { Some((events, bytes)) };
            }
        }
    }
    batches
}

/// Sends all events, in as many requests as necessary, up to the first refusal.
pub(crate) async fn deliver_batch(sink: Arc<dyn Sink>, batch: OutboundBatch) -> DeliveredBatch {
    let OutboundBatch { shares } = batch;
    let load = sink.load_limits();
    let events: Vec<CloudEvent> = shares.iter().flat_map(|share| share.events.iter().cloned()).collect();
    let (mut sent, mut refusal) = (0, None);
    while sent < events.len() {
        let count = count_fitting(&events[sent..], load);
        match sink.send_events(&events[sent..sent + count]).await {
            Ok(()) => sent += count,
            Err(refused) => {
                refusal = Some(refused);
                break;
            }
        }
    }
    DeliveredBatch { shares, sent, refusal }
}

/// How many of these fit into one request; at least one.
fn count_fitting(events: &[CloudEvent], load: SinkLoad) -> usize {
    let mut bytes = 0;
    let fits = |event: &&CloudEvent| {
        bytes += event.approximate_bytes();
        bytes <= load.bytes
    };
    events.iter().take(load.events).take_while(fits).count().max(1)
}

/// Progress of a graph.
#[derive(Debug)]
pub(crate) struct GraphDelivery {
    pub(crate) share: GraphShare,
    pub(crate) heard: Option<DeliveredParcel>,
    /// A part of it was refused and is left.
    pub(crate) is_held: bool,
}

impl DeliveredBatch {
    /// Progress of each graph of the batch.
    pub(crate) fn graph_deliveries(self) -> Vec<GraphDelivery> {
        let mut left = self.sent;
        let mut came = Vec::with_capacity(self.shares.len());
        for share in self.shares {
            let sent = left.min(share.events.len());
            left -= sent;
            let is_held = sent < share.events.len();
            came.push(GraphDelivery { heard: share.position_after(sent), is_held, share });
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: SinkLoad = SinkLoad { requests: 1, events: 5, bytes: 1000 };

    fn packed(shares: Vec<GraphShare>) -> Vec<Vec<String>> {
        let names = |batch: OutboundBatch| {
            batch.shares.iter().map(|share| share.graph.execution.to_string()).collect()
        };
        pack_batches(shares, LOAD).into_iter().map(names).collect()
    }

    #[test]
    fn outbound_batch_is_filled_to_limit() {
        let shares = ["a", "b", "c", "d"].map(|graph| GraphShare::sample_share(graph, 0, &[2], 100));
        assert_eq!(packed(shares.into()), [["a", "b"], ["c", "d"]]);
        let heavy = ["a", "b", "c"].map(|graph| GraphShare::sample_share(graph, 0, &[1], 400));
        assert_eq!(packed(heavy.into()), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn refused_or_large_graph_goes_alone() {
        let shares = vec![
            GraphShare::sample_share("a", 0, &[1], 1),
            GraphShare::sample_share("refused", 1, &[1], 1),
            GraphShare::sample_share("large", 0, &[6], 1),
            GraphShare::sample_share("b", 0, &[1], 1),
            GraphShare::sample_share("c", 0, &[1], 1),
        ];
        assert_eq!(packed(shares), [vec!["a"], vec!["refused"], vec!["large"], vec!["b", "c"]]);
    }

    #[test]
    fn sent_events_are_counted_per_graph() {
        let shares = ["a", "b", "c"].map(|graph| GraphShare::sample_share(graph, 0, &[1, 1], 1)).into();
        let came = DeliveredBatch { shares, sent: 3, refusal: None }.graph_deliveries();
        let entries: Vec<_> =
            came.iter().map(|came| came.heard.as_ref().map(|heard| heard.entries)).collect();
        assert_eq!(entries, [Some(2), Some(1), None]);
        assert_eq!(came.iter().map(|came| came.is_held).collect::<Vec<_>>(), [false, true, true]);
    }
}
