//! Outbound events of graphs, runs and items: published after the commit, at least once, in order per
//! subject.
//!
//! For graphs the feed holds the events, and the outbox the position of each sink
//! ([`millstream_store::outbox`]); for runs and items there are notices, with a copy per sink
//! ([`millstream_store::notices`]). One worker at a time publishes both ([`crate::duties::publish`]). Reading
//! order: [`cloud_event`] (the event format), [`graph_share`] (the next events of one graph for a sink), [`batch`]
//! (what is sent together), [`graph_courier`] (one sink's loop) and [`notice_courier`] (the same for notices),
//! [`sink_health`] (sink health), then the sinks: [`redis_stream`] and [`webhook`].
//! same for notices), [`sink_health`] (what refusals mean), then the sinks: [`redis_stream`] and [`webhook`].

pub(crate) mod batch;
pub(crate) mod cloud_event;
mod event_filter;
pub(crate) mod graph_courier;
pub(crate) mod graph_share;
pub(crate) mod notice_courier;
mod redis_stream;
mod sink;
pub(crate) mod sink_health;
mod webhook;

pub use cloud_event::CloudEvent;
pub use event_filter::{FAMILIES, KINDS, SinkFilter};
pub use redis_stream::StreamSink;
pub use sink::{Sink, SinkLoad, SinkRefusal};
pub use webhook::{WebhookForm, WebhookSettings, WebhookSink};
