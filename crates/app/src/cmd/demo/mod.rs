//! `millstream demo`: a few hundred orders, a worker loop killed in the middle, and a report that nothing is
//! lost.

mod orders;
mod report;
mod steps;
mod till;

pub(crate) use steps::run;
