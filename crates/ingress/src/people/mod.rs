//! Work for people, whatever the transport: what they ask for and hand in, and what is judged before it counts.
//!
//! Everything is decided by `core::assignment`; here it is loaded, stepped and written ([`millstream_store::tending`]),
//! with the requests of many people in one transaction.

pub(crate) mod counted;
pub(crate) mod desk;
pub(crate) mod giving;
pub(crate) mod importing;
pub(crate) mod judging;
pub(crate) mod lines;
pub(crate) mod refused;
pub(crate) mod schema;
mod schema_steps;
mod shell;
