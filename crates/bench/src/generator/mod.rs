//! The load: requests sent and answers timed, on a thread of its own.
//!
//! Two cores are shared by everything, so the generator allocates nothing per event and runs all its
//! connections on one thread. [`mod@closed`] keeps every connection busy; [`mod@open`] sends at set times and
//! counts the wait of a request that had to queue; [`mod@events`] is what it sends unless it is something else.

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
