//! The same seed gives an identical run.

use millstream_sim::run::run;
use millstream_sim::trace::Record;

#[test]
fn a_seed_runs_identically_every_time() {
    for seed in 0..40 {
        let (first, second) = (run(seed, Record::Everything), run(seed, Record::Everything));
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
fn a_run_is_the_same_whether_it_is_written_down_or_not() {
    for seed in 40..50 {
        let (told, untold) = (run(seed, Record::Everything), run(seed, Record::Nothing));
        assert_eq!(told.counts, untold.counts, "seed {seed}");
        assert_eq!(told.lasted, untold.lasted, "seed {seed}");
    }
}
