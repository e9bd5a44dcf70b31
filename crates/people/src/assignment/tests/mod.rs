//! Tests of the assignment state machine, by topic.

mod agreement;
mod corrections;
mod ending;
mod fixture;
mod lifecycle;
mod notices;
mod queue_config;
mod selection;
mod stats;
mod transition_table;
