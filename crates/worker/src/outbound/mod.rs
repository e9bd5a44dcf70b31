//! Telling the outside what happened to graphs: after the commit, at least once, in order per graph.
//!
//! The feed holds what there is to tell, the outbox how far each sink is ([`millstream_store::outbox`]); one worker
//! at a time tells it ([`crate::duties::publish`]). Reading order: [`cloud_event`] (what is told), [`share`] (what a
//! sink is to hear of one graph), [`batch`] (what is sent together), [`courier`] (one sink's loop), then the
//! sinks: [`stream`] and [`webhook`].

pub(crate) mod batch;
pub(crate) mod cloud_event;
pub(crate) mod courier;
pub(crate) mod share;
mod sink;
mod stream;
mod taste;
mod webhook;

pub use cloud_event::CloudEvent;
pub use sink::{Load, Refusal, Sink};
pub use stream::StreamSink;
pub use taste::{KINDS, Taste};
pub use webhook::{Form, Webhook, WebhookSink};
