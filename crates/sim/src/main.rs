//! `sim`: runs seeds and reports whether every guarantee held.

#![expect(clippy::print_stdout, reason = "a command")]

use std::process::ExitCode;

use clap::Parser;
use millstream_model::mutation::{self, Mutation};
use millstream_sim::check::SimViolation;
use millstream_sim::fleet::run_all;
use millstream_sim::run::run;
use millstream_sim::trace::{TraceRecording, trace_excerpt};

/// A deterministic simulation of Millstream's protocol.
#[derive(Debug, Parser)]
struct SimArguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Plant a known bug first (builds with debug assertions only).
    #[arg(long)]
    bug: Option<String>,
    /// Print everything that happens in one seed.
    #[arg(long)]
    trace: Option<u64>,
    /// Threads.
    #[arg(long)]
    threads: Option<usize>,
    /// Lines printed of a seed that breaks a promise, besides those about its executions.
    #[arg(long, default_value_t = 200)]
    lines: usize,
}

fn main() -> ExitCode {
    let arguments = SimArguments::parse();
    if let Some(name) = &arguments.bug {
        let Some(bug) = Mutation::parse(name) else {
            println!("no bug is called {name}");
            return ExitCode::from(2);
        };
        mutation::activate_mutation(bug);
        if !mutation::is_active(bug) {
            println!("this build carries no bugs: build with debug assertions");
            return ExitCode::from(2);
        }
    }
    match arguments.trace {
        Some(seed) => trace_seed(seed),
        None => run_seeds(&arguments),
    }
}

fn trace_seed(seed: u64) -> ExitCode {
    let outcome = run(seed, TraceRecording::Everything);
    for line in &outcome.trace {
        println!("{line}");
    }
    println!("{}", outcome.counts.table());
    report_violations(seed, &outcome.violations)
}

fn run_seeds(arguments: &SimArguments) -> ExitCode {
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    let verdict = run_all(arguments.from, arguments.seeds, threads.unwrap_or(1));
    println!("{} seeds\n{}", verdict.seeds, verdict.counts.table());
    let (slowest, settled_in) = verdict.slowest;
    println!("seed {slowest} took longest to become quiet: {settled_in:?} after its last fault");
    let Some(broken) = verdict.broken else {
        println!("every promise was kept");
        return ExitCode::SUCCESS;
    };
    let again = run(broken.seed, TraceRecording::Everything);
    let executions: Vec<String> = broken.violations.iter().map(|wrong| wrong.execution.clone()).collect();
    for line in trace_excerpt(&again.trace, &executions, arguments.lines) {
        println!("{line}");
    }
    if again.violations != broken.violations {
        println!("the seed did not repeat itself: the run depends on something that is not its seed");
    }
    report_violations(broken.seed, &broken.violations)
}

fn report_violations(seed: u64, violations: &[SimViolation]) -> ExitCode {
    if violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nseed {seed} breaks {} promises:", violations.len());
    for violation in violations {
        println!("  {violation}");
    }
    println!("again: sim --trace {seed}");
    ExitCode::FAILURE
}
