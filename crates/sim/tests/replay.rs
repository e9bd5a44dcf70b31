//! The same seed gives an identical run.

use millstream_sim::run::run;
use millstream_sim::trace::TraceRecording;

#[test]
fn seed_runs_identically() {
    for seed in 0..40 {
        let (first, second) = (run(seed, TraceRecording::Everything), run(seed, TraceRecording::Everything));
        let differs = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
        if let Some(at) = differs {
            let from = at.saturating_sub(10);
            panic!(
                "seed {seed} differs at line {at}\n{}\n--- once\n{}\n--- and again\n{}",
                first.trace[from..at].join("\n"),
                first.trace[at],
                second.trace[at]
            );
        }
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}

#[test]
fn trace_does_not_change_a_run() {
    for seed in 40..50 {
        let (told, untold) = (run(seed, TraceRecording::Everything), run(seed, TraceRecording::Nothing));
        assert_eq!(told.counts, untold.counts, "seed {seed}");
        assert_eq!(told.lasted, untold.lasted, "seed {seed}");
    }
}
