//! The rules of a graph, each with the case that would break it.

mod bench;
mod budgeting;
mod creating;
mod editing;
mod ending;
mod fanning;
mod running;
mod trying;
mod watching;
