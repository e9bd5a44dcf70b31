//! The `millstream-bench` binary, which `millstream bench` starts: a command line over the library of this crate.

mod command;

use anyhow::Result;
use clap::Parser;
use millstream_runtime::config::{self, Config};
use millstream_runtime::threads;

use crate::command::BenchArgs;

/// The allocator of the engine: the generator shares the machine with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // The one TLS provider of the process; a second call, which cannot happen, would keep the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args = BenchArgs::parse();
    let outcome = load_settings(&args).and_then(|config| {
        let runtime = threads::build_runtime(&config)?;
        let outcome = runtime.block_on(command::run(&args, &config));
        // A pending name lookup, for example, must not delay the exit.
        runtime.shutdown_background();
        outcome
    });
    if let Err(error) = outcome {
        eprintln!("error: {}", command::failure_text(&error));
        std::process::exit(command::exit_code(&error));
    }
}

fn load_settings(args: &BenchArgs) -> Result<Config> {
    config::load_for_process(args.global.config.as_deref(), &args.global.config_flags())
}
