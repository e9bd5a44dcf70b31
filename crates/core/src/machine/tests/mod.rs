//! The rules of a step and of a turn, each with the case that would break it.

mod cases;
mod history;
mod planning;
mod stepping;
mod turning;
