//! Options of a device torture.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use millstream_model::mutation::Mutation;

use crate::options::{obeys_drills, parse_bug, parse_length};

/// Has devices that crash, decline, are cut off and paused work on runs, and checks that no run is lost or
/// had twice.
#[derive(Debug, Clone, Parser)]
#[command(name = "torture devices")]
pub struct DeviceTortureOptions {
    /// The binary under test.
    #[arg(long, value_name = "PATH")]
    pub binary: PathBuf,
    /// The same seed asks for the same runs and draws the same faults. Without it one is drawn and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Ingresses and workers on PostgreSQL and Redis, or one process on SQLite.
    #[arg(long, value_enum, default_value_t = EngineMode::Fleet)]
    pub mode: EngineMode,
    #[arg(long, default_value_t = 50)]
    pub devices: usize,
    #[arg(long, default_value_t = 5_000)]
    pub runs: usize,
    /// How many runs are open at the same time.
    #[arg(long, default_value_t = 100)]
    pub at_once: usize,
    /// Plant a known bug into every process: a violation must then be found.
    #[arg(long, value_name = "BUG", value_parser = parse_bug)]
    pub plant: Option<Mutation>,
    /// Do not kill processes.
    #[arg(long)]
    pub no_kills: bool,
    /// Runs that are not created within this time are left out
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_length)]
    pub within: Duration,
    /// Maximum time for everything to end after the last fault
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = parse_length)]
    pub patience: Duration,
    /// Allowance of a busy machine for the time that a seat has no owner
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_length)]
    pub allowance: Duration,
    /// Write the report as JSON to this file as well.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineMode {
    Fleet,
    Embedded,
}

impl DeviceTortureOptions {
    /// Reports impossible options before the run begins.
    pub fn validate_options(&self) -> Result<(), String> {
        if !self.binary.is_file() {
            return Err(format!("--binary: there is no file {}", self.binary.display()));
        }
        if self.plant.is_some() && !obeys_drills(&self.binary) {
            return Err("--plant: this binary has no debug assertions, and so no bugs to plant".to_owned());
        }
        if self.devices < 10 {
            return Err("--devices: at least 10 are needed".to_owned());
        }
        if self.at_once == 0 || self.at_once > 500 {
            return Err("--at-once: must be 1 to 500".to_owned());
        }
        Ok(())
    }
}
