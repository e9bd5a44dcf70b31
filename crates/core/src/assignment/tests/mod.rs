//! Tests of the assignment state machine, by topic.

mod agreeing;
mod configuring;
mod correcting;
mod counting;
mod ending;
mod fixture;
mod handing_out;
mod living;
mod noticing;
mod possible;
