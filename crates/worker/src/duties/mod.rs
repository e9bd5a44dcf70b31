//! Periodic duties of the workers. Each repair is one file.
//!
//! | file | repairs |
//! |---|---|
//! | [`due_timers`] | timers that have come due |
//! | [`due_actions`] | actions that are ready, and those whose lease has run out |
//! | [`missed_schedules`] | actions that did not begin, or did not end, in time |
//! | [`overdue_sweep`] | events that are committed and were never rung, or rung and never decided |
//! | [`ring_all`] | a stream that lost its consumer group or its data |
//! | [`due_runs`] | device runs without an answer, a start or a heartbeat in time |
//! | [`due_items`] | people's work that was not started or finished in time |
//! | [`dead_consumers`] | consumers and worker rows of dead workers |
//! | [`retention`] | rows past their retention period |
//! | [`publish`] | nothing: it publishes the events of graphs, runs and items to sinks |
//! | [`heartbeat`], [`clock_sync`], [`registered_executors`], [`gauges`], [`quota_refresh`], [`queue_totals`] | nothing: they refresh
//! information |
//!
//! The doorbells of dead workers are reclaimed in [`crate::pipeline::reclaim`]; what a crashed embedded process held
//! is released in [`recovery`].

pub(crate) mod clock_sync;
pub(crate) mod dead_consumers;
pub(crate) mod doorbell_counts;
pub(crate) mod due_actions;
pub(crate) mod due_items;
pub(crate) mod due_nodes;
pub(crate) mod due_runs;
pub(crate) mod due_timers;
pub(crate) mod ended_graphs;
pub(crate) mod gauges;
pub(crate) mod graph_times;
pub(crate) mod heartbeat;
pub(crate) mod missed_schedules;
pub(crate) mod overdue_sweep;
pub(crate) mod periodic;
pub(crate) mod publish;
pub(crate) mod queue_totals;
pub(crate) mod quota_refresh;
pub(crate) mod recovery;
pub(crate) mod registered_executors;
pub(crate) mod retention;
pub(crate) mod ring_all;

pub use recovery::release_duties_of_dead_workers;

/// Every duty that one worker holds under a lease, as its row is named.
pub(crate) const LEASED_DUTIES: [&str; 6] = [
    due_items::DUTY,
    overdue_sweep::DUTY,
    publish::DUTY,
    retention::DUTY,
    ring_all::DUTY,
    ring_all::GENERATION,
];

#[cfg(test)]
mod sweep_tests;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A duty that is missing in the list keeps a new embedded process waiting for the lease of a dead one.
    #[test]
    fn every_leased_duty_is_listed() {
        let duties = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/duties");
        let mut names = Vec::new();
        for file in std::fs::read_dir(duties).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines().filter(|line| line.starts_with("pub(crate) const ")) {
                let Some((_, value)) = line.split_once(": &str = ") else { continue };
                names.push(value.trim_matches(['"', ';']).to_owned());
            }
        }
        names.sort_unstable();
        let mut listed = LEASED_DUTIES.to_vec();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }
}
