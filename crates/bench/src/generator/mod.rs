//! Load generator: sends requests and times answers, on a thread of its own.
//!
//! Two cores are shared by all processes, so the generator allocates nothing per event and runs all its
//! connections on one thread. [`closed`] keeps every connection busy; [`open`] sends on a schedule
//! and includes queueing time in the latency; [`mod@events`] is its default request.

mod closed;
mod events;
mod open;
mod own_thread;
mod schedule;
mod tally;

pub(crate) use closed::run_closed_loop;
pub(crate) use open::{AnsweredRequest, LoadErrand, LoadPace, OpenLane, OpenLoopResult, run_open_loop};
pub(crate) use own_thread::on_own_thread;
pub(crate) use tally::SentLoad;
