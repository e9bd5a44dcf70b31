//! What only a file can show: that it survives, who may hold it, and what is written in it. The
//! contract itself is the business of the conformance suite.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code beside the test functions")]

mod damage;
mod desk;
mod fencing;
mod fidelity;
mod graphs;
mod migration;
mod survival;
mod writers;
