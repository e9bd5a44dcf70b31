//! What only PostgreSQL can get wrong: the order of locks, plans, and rows and servers that refuse.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests and what they stand on")]

mod crossings;
mod graphs;
mod lock_order;
mod people;
mod plans;
mod queues;
mod refusals;
mod restarts;
mod retention;
mod runs;
mod sessions;
mod support;
mod upgrades;
