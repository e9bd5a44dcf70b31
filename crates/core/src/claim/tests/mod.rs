//! Tests of the run state machine, by topic.

mod acting;
mod asking;
mod choosing;
mod coverage;
mod cut_off;
mod ending;
mod noticing;
mod operating;
mod seats;
mod stage;
