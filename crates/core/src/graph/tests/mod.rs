//! Tests of the graph state machine, by topic.

mod bench;
mod budgeting;
mod creating;
mod editing;
mod ending;
mod fanning;
mod running;
mod trying;
mod watching;
