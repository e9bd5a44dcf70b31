//! Submission of events and starts: checks before the acceptance, idempotency, and the events to append.
//!
//! Reading order: `event_draft` (an event of a client, checked against its definition), `idempotency_key`,
//! `start_decision` (the first transition of an execution), `deps` (what these need).

mod deps;
pub(crate) mod event_draft;
pub(crate) mod idempotency_key;
pub(crate) mod start_decision;

pub(crate) use deps::SubmitDeps;
