//! Outbound events of graphs, runs and items: published after the commit, at least once, in order per
//! subject.
//!
//! For graphs the feed holds the events, and the outbox the position of each sink
//! ([`millstream_store::outbox`]); for runs and items there are notices, with a copy per sink
//! ([`millstream_store::notices`]). One worker at a time publishes both ([`crate::duties::publish`]). Reading
//! order: [`cloud_event`] (the event format), [`share`] (the next events of one graph for a sink), [`batch`]
//! (what is sent together), [`courier`] (one sink's loop) and [`notice_courier`] (the same for notices),
//! [`standing`] (sink health), then the sinks: [`stream`] and [`webhook`].
//! same for notices), [`standing`] (what refusals mean), then the sinks: [`stream`] and [`webhook`].

pub(crate) mod batch;
pub(crate) mod cloud_event;
pub(crate) mod courier;
pub(crate) mod notice_courier;
pub(crate) mod share;
mod sink;
pub(crate) mod standing;
mod stream;
mod taste;
mod webhook;

pub use cloud_event::CloudEvent;
pub use sink::{Load, Refusal, Sink};
pub use stream::StreamSink;
pub use taste::{FAMILIES, KINDS, Taste};
pub use webhook::{Form, Webhook, WebhookSink};
