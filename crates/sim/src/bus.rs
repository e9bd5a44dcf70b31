//! The in-process stream, which can lose everything at any moment.
//!
//! A loss replaces the stream by a new one, with a generation of its own and without locks. Entry ids contain
//! the number of their stream, as those of Redis contain the time: an acknowledgement from before the loss
//! must not match an entry from after it.

use std::sync::{Arc, Mutex, PoisonError};

use millstream_stream::EmbeddedStream;
use millstream_stream::doorbell::{DoorbellDelivery, StreamEntryId};

use crate::dice::SimDice;

#[derive(Debug)]
pub(crate) struct StreamBus {
    dice: SimDice,
    current: Mutex<CurrentStream>,
}

/// One stream, between two losses.
#[derive(Debug, Clone)]
pub(crate) struct CurrentStream {
    pub(crate) number: u64,
    pub(crate) stream: Arc<EmbeddedStream>,
}

impl StreamBus {
    pub(crate) fn new(dice: SimDice) -> Self {
        let stream = EmbeddedStream::new(&dice);
        Self { dice, current: Mutex::new(CurrentStream { number: 1, stream }) }
    }

    pub(crate) fn current_stream(&self) -> CurrentStream {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn forget_everything(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.number += 1;
        current.stream = EmbeddedStream::new(&self.dice);
    }
}

impl CurrentStream {
    pub(crate) fn qualify_ids(&self, deliveries: Vec<DoorbellDelivery>) -> Vec<DoorbellDelivery> {
        let mark = |mut delivery: DoorbellDelivery| {
            delivery.entry.id = format!("{}-{}", self.number, delivery.entry.id);
            delivery
        };
        deliveries.into_iter().map(mark).collect()
    }

    /// Entries of this stream, with the ids that it uses.
    pub(crate) fn own_entries(&self, entries: &[StreamEntryId]) -> Vec<StreamEntryId> {
        let own = |entry: &StreamEntryId| {
            let (number, id) = entry.id.split_once('-')?;
            let ours = number.parse() == Ok(self.number);
            ours.then(|| StreamEntryId { lane: entry.lane, id: id.to_owned() })
        };
        entries.iter().filter_map(own).collect()
    }
}
