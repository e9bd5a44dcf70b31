//! Tests of steps and turns: each rule with a case that would break it.

mod budgeting;
mod cases;
mod history;
mod planning;
mod stepping;
mod turning;
