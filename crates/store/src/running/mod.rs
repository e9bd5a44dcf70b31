//! Applies commands to device runs, with optimistic concurrency: load, let the pure core decide, commit if
//! the version still matches, else retry. Batched: one read, one commit for many commands.
//!
//! Refuses: domain decisions. [`Around`] is the environment: the stores, the time, and the settlement of the
//! action that waits for a run.
//!
//! | file | what |
//! |---|---|
//! | [`order`] | commands and answers |
//! | [`rounds`] | the retry loop, until every command is answered |
//! | [`planning`] | the writes of a round, each command on top of those before it |
//! | [`placing`] | which device gets a free seat |
//! | [`rosters`] | cache of devices, so that not every choice reads them |
//! | [`committing`] | one commit and its verdicts |
//! | [`tally`] | counters for metrics |

mod around;
mod committing;
mod order;
mod placing;
mod planning;
mod rosters;
mod rounds;
mod tally;

pub use around::{Around, Written};
pub use order::{Acted, Answer, Ask, Created, Order, Want, act, create};
pub use rosters::Rosters;
pub use rounds::perform;
pub use tally::Tally;
