//! Neighbour torture: a hostile tenant and anonymous clients attack a fleet in every known way, while an
//! honest tenant posts events at a steady rate and measures its latencies.
//!
//! Reading order: parameters ([`options`], [`attack`]), the fleet under test ([`engine`]), the honest tenant
//! ([`honest`], [`target`]), the attacks ([`attacks`], [`threads`]), measurements from outside ([`probe`], [`figures`]),
//! guarantees after the attacks ([`settle`], [`rows`], [`settled`]), and the verdict ([`run`], [`check`],
//! [`report`]).

pub mod attack;
mod attacks;
pub mod check;
mod engine;
pub mod figures;
mod honest;
pub mod options;
mod probe;
pub mod report;
mod rows;
pub mod run;
mod settle;
pub mod settled;
mod target;
mod threads;
