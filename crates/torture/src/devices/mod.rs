//! Device torture: many simulated devices with HTTP clients of their own process runs from a real engine,
//! while devices crash, decline, are cut off and paused, and processes are killed.
//!
//! Reading order: parameters ([`options`], [`plan`]), the engine ([`engine`]), the devices ([`wire`],
//! [`memory`], [`device`], [`work`]), creation of runs and interference ([`load`], [`operator`]), evidence
//! ([`record`], [`collect`], [`load_probe`]), and guarantees ([`check`], [`report`]).

pub mod check;
mod collect;
mod device;
mod engine;
mod load;
mod load_probe;
mod memory;
mod operator;
pub mod options;
mod plan;
pub mod record;
pub mod report;
pub mod run;
mod wire;
mod work;
