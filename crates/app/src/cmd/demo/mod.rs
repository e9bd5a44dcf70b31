//! `millstream demo`: a few hundred orders, a worker killed in the middle, and what was not lost.

mod orders;
mod report;
mod show;
mod till;

pub(crate) use show::run;
