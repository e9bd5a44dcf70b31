//! Tests of the file: it survives, one process holds it, and its contents. The conformance suite tests the
//! contract itself.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code beside the test functions")]

mod damage;
mod fencing;
mod fidelity;
mod graphs;
mod migration;
mod status_words;
mod store_fixture;
mod survival;
mod writers;
