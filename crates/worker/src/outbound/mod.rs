//! Telling the outside what happened to graphs, runs and items: after the commit, at least once, in order per subject.
//!
//! Of graphs the feed holds what there is to tell, the outbox how far each sink is ([`millstream_store::outbox`]); of
//! runs and items there are notices, with a copy per sink ([`millstream_store::notices`]). One worker at a time tells
//! both ([`crate::duties::publish`]). Reading order: [`cloud_event`] (what is told), [`share`] (what a sink is to
//! hear of one graph), [`batch`] (what is sent together), [`courier`] (one sink's loop) and [`notice_courier`] (the
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
