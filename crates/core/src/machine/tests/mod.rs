//! The rules of a step and of a turn, each with the case that would break it.

mod budgeting;
mod cases;
mod history;
mod planning;
mod stepping;
mod turning;
