//! Periodic duties of the workers. Each repair is one file.
//!
//! | file | repairs |
//! |---|---|
//! | [`due_timers`] | timers that have come due |
//! | [`due_actions`] | actions that are ready, and those whose lease has run out |
//! | [`missed_schedules`] | actions that did not begin, or did not end, in time |
//! | [`overdue`] | events that are committed and were never rung, or rung and never decided |
//! | [`ring_all`] | a stream that lost its consumer group or its data |
//! | [`runs`] | device runs without an answer, a start or a heartbeat in time |
//! | [`items`] | people's work that was not started or finished in time |
//! | [`consumers`] | consumers and worker rows of dead workers |
//! | [`retention`] | rows past their retention period |
//! | [`publish`] | nothing: it publishes the events of graphs, runs and items to sinks |
//! | [`beat`], [`clock`], [`executors`], [`gauges`], [`quotas`], [`standings`] | nothing: they refresh
//! information |
//!
//! The doorbells of dead workers are reclaimed in [`crate::reclaim`].

pub(crate) mod beat;
pub(crate) mod clock;
pub(crate) mod consumers;
pub(crate) mod due_actions;
pub(crate) mod due_nodes;
pub(crate) mod due_timers;
pub(crate) mod ended_graphs;
pub(crate) mod every;
pub(crate) mod executors;
pub(crate) mod gauges;
pub(crate) mod graph_times;
pub(crate) mod items;
pub(crate) mod missed_schedules;
pub(crate) mod overdue;
pub(crate) mod publish;
pub(crate) mod quotas;
pub(crate) mod retention;
pub(crate) mod ring_all;
pub(crate) mod runs;
pub(crate) mod standings;
pub(crate) mod windows;

#[cfg(test)]
mod sweep_tests;
