//! `torture`: one run, its report, and an exit code: 0 nothing was lost, 1 something was, 2 wrong usage.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::expect_used, reason = "a command line")]

use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use clap::Parser;
use millstream_torture::neighbours::options::NeighbourOptions;
use millstream_torture::options::TortureOptions;
use millstream_torture::run::run;
use millstream_torture::{devices, neighbours};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "devices") {
        arguments.remove(1);
        return torture_devices(&devices::options::DeviceTortureOptions::parse_from(arguments));
    }
    if arguments.get(1).is_some_and(|first| first == "neighbours") {
        arguments.remove(1);
        return torture_neighbours(&NeighbourOptions::parse_from(arguments));
    }
    let options = TortureOptions::parse();
    let kinds = match options.validate_options().and_then(|()| options.fault_kinds()) {
        Ok(kinds) => kinds,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("seed {seed}: {} kinds of fault for {:?}", kinds.len(), options.length);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (report, stage) = runtime.block_on(run(&options, &kinds, seed));
    report.print();
    if let Some(file) = &options.json {
        std::fs::write(file, report.json().to_string()).expect("write the report");
    }
    let failed = !report.violations.is_empty();
    if failed || options.keep {
        let kept = std::env::temp_dir().join(format!("millstream-torture-seed-{seed}"));
        match keep_logs(stage.directory.path(), &kept) {
            Ok(()) => println!("logs: {}", kept.display()),
            Err(error) => eprintln!("error: the logs could not be kept: {error}"),
        }
        println!("again: scripts/torture --seed {seed} --for {}s", options.length.as_secs());
    }
    let _inside = runtime.enter();
    drop(stage);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A seed where none is given.
fn random_seed() -> u64 {
    UNIX_EPOCH.elapsed().map_or(1, |now| u64::try_from(now.as_micros()).unwrap_or(1)) % 1_000_000
}

fn torture_devices(options: &devices::options::DeviceTortureOptions) -> ExitCode {
    if let Err(problem) = options.validate_options() {
        eprintln!("error: {problem}");
        return ExitCode::from(2);
    }
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("seed {seed}: {} devices, {} runs", options.devices, options.runs);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let report = runtime.block_on(devices::run::run(options, seed));
    report.print();
    if let Some(file) = &options.json {
        std::fs::write(file, report.json().to_string()).expect("write the report");
    }
    if report.findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    let kept = std::env::temp_dir().join(format!("millstream-torture-devices-seed-{seed}.log"));
    match std::fs::write(&kept, &report.outputs) {
        Ok(()) => println!("logs: {}", kept.display()),
        Err(error) => eprintln!("error: the logs could not be kept: {error}"),
    }
    ExitCode::FAILURE
}

fn torture_neighbours(options: &NeighbourOptions) -> ExitCode {
    if let Err(problem) = options.validate_options() {
        eprintln!("error: {problem}");
        return ExitCode::from(2);
    }
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("seed {seed}: an honest tenant with {} events/s beside a hostile one", options.rate);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let report = runtime.block_on(neighbours::run::run(options, seed));
    report.print();
    if let Some(file) = &options.json {
        std::fs::write(file, report.json().to_string()).expect("write the report");
    }
    if report.findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    let kept = std::env::temp_dir().join(format!("millstream-torture-neighbours-seed-{seed}.log"));
    match std::fs::write(&kept, &report.outputs) {
        Ok(()) => println!("logs: {}", kept.display()),
        Err(error) => eprintln!("error: the logs could not be kept: {error}"),
    }
    ExitCode::FAILURE
}

fn keep_logs(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
