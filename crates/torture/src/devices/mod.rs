//! The torture of devices: many of them with HTTP clients of their own take runs from real processes, while devices
//! crash, decline, are cut off and paused, and processes are killed.
//!
//! Reading order: what is asked for ([`options`], [`plan`]), where ([`engine`]), the devices ([`wire`], [`memory`],
//! [`device`], [`work`]), who creates runs and who interferes with them ([`load`], [`operator`]), what was seen
//! ([`record`], [`collect`], [`yardstick`]), and what must hold afterwards ([`check`], [`report`]).

pub mod check;
mod collect;
mod device;
mod engine;
mod load;
mod memory;
mod operator;
pub mod options;
mod plan;
pub mod record;
pub mod report;
pub mod run;
mod wire;
mod work;
mod yardstick;
