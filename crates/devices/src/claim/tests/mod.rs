//! Tests of the run state machine, by topic.

mod backoff;
mod device_acts;
mod fixture;
mod notices;
mod offline_claims;
mod operator;
mod run_outcome;
mod seats;
mod selection;
mod transition_table;
