//! What is done to runs of devices, by whoever does it: load, let the pure core decide, write if nobody wrote
//! before, else look again. Many at once: one read, one commit.
//!
//! Nothing is decided here. [`Around`] is what the shell knows: the stores, the time, and how the outcome of a run
//! settles the action that waits for it.
//!
//! | file | what |
//! |---|---|
//! | [`order`] | what is asked for, and what is answered |
//! | [`rounds`] | one round after the other until everything is answered |
//! | [`planning`] | what a round would write, each order knowing of those before it |
//! | [`placing`] | who gets seats that nobody has |
//! | [`rosters`] | the devices as this process knows them, so that they are not read for every choice |
//! | [`committing`] | one commit, and what became of it |
//! | [`tally`] | what is counted of it |

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
