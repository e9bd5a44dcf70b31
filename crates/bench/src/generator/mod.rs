//! Load generator: sends requests and times answers, on a thread of its own.
//!
//! Two cores are shared by all processes, so the generator allocates nothing per event and runs all its
//! connections on one thread. [`mod@closed`] keeps every connection busy; [`mod@open`] sends on a schedule
//! and includes queueing time in the latency; [`mod@events`] is its default request.

mod closed;
mod events;
mod open;
mod own_thread;
mod schedule;
mod tally;

pub(crate) use closed::closed;
pub(crate) use open::{Answered, Errand, Lane, Opened, Pace, open};
pub(crate) use own_thread::on_own_thread;
pub(crate) use tally::Sent;
