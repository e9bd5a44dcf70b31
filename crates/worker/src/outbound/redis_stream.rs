//! A Redis stream: one entry per event, its attributes as fields.

use std::sync::Arc;

use millstream_model::id::Name;
use millstream_stream::outbound::{OutboundEntry, OutboundStream};

use super::cloud_event::CloudEvent;
use super::event_filter::SinkFilter;
use super::sink::{Sink, SinkLoad, SinkRefusal};

pub struct StreamSink {
    pub name: Name,
    pub outbound: Arc<dyn OutboundStream>,
    /// The key of the stream.
    pub stream: String,
    /// Approximate length to which the stream is trimmed.
    pub keep: usize,
    pub source: String,
    pub taste: SinkFilter,
}

impl std::fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamSink").field("stream", &self.stream).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Sink for StreamSink {
    fn name(&self) -> &Name {
        &self.name
    }

    fn source(&self) -> &str {
        &self.source
    }

    fn event_filter(&self) -> &SinkFilter {
        &self.taste
    }

    /// One transaction at a time, of a few milliseconds.
    fn load_limits(&self) -> SinkLoad {
        SinkLoad { requests: 1, events: 500, bytes: 1024 * 1024 }
    }

    async fn send_events(&self, events: &[CloudEvent]) -> Result<(), SinkRefusal> {
        let entries: Vec<OutboundEntry> = events.iter().map(stream_entry).collect();
        let appended = self.outbound.append_entries(&self.stream, &entries, self.keep).await;
        appended.map_err(|error| SinkRefusal::Away { error: error.to_string(), retry_after: None })
    }
}

fn stream_entry(event: &CloudEvent) -> OutboundEntry {
    OutboundEntry(vec![
        ("specversion", event.specversion.to_owned()),
        ("id", event.id.clone()),
        ("source", event.source.clone()),
        ("type", event.kind.clone()),
        ("subject", event.subject.clone()),
        ("time", event.time.to_string()),
        ("sequence", event.sequence.clone()),
        ("datacontenttype", event.datacontenttype.to_owned()),
        ("data", event.data.as_str().to_owned()),
    ])
}
