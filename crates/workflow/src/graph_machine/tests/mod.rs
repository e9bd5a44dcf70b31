//! Tests of the graph state machine, by topic.

mod budget;
mod edits;
mod ending;
mod fan_out;
mod fixture;
mod notices;
mod retry;
mod scheduling;
mod validation;
