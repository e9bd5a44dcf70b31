//! The torture of neighbours: a hostile tenant and anonymous clients attack a fleet in every way that is known, while an
//! honest tenant posts events at a steady rate and measures what it waits for.
//!
//! Reading order: what is asked for ([`options`], [`attack`]), the fleet under test ([`engine`]), the honest tenant
//! ([`honest`], [`target`]), the attacks ([`attacks`], [`threads`]), what is measured from outside ([`probe`], [`figures`]), what holds
//! afterwards ([`settle`], [`rows`], [`settled`]), and the verdict ([`run`], [`check`], [`report`]).

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
