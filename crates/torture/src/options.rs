//! Options of a torture run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use millstream_model::duration;
use millstream_model::mutation::Mutation;

use crate::fault_kind::FaultKind;
use crate::stage::bare_command;

/// Breaks a private fleet with seeded faults and checks that nothing was lost.
#[derive(Debug, Clone, Parser)]
#[command(name = "torture")]
pub struct TortureOptions {
    /// How long faults are injected, e.g. 60s or 10m.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_length)]
    pub length: Duration,
    /// The same seed gives the same faults in the same order. Without it one is drawn and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The binary under test.
    #[arg(long, value_name = "PATH")]
    pub binary: PathBuf,
    /// How the durations are set: a tenth of the defaults, or the defaults.
    #[arg(long, value_enum, default_value_t = TortureTimes::Tenth)]
    pub times: TortureTimes,
    #[arg(long, default_value_t = 4)]
    pub workers: usize,
    #[arg(long, default_value_t = 2)]
    pub ingresses: usize,
    /// Events per second that the clients try to post.
    #[arg(long, default_value_t = 400)]
    pub rate: u64,
    /// Only these kinds of fault, separated by commas; `none` for a run without any.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Plant a known bug into every process: the run must then find a violation.
    #[arg(long, value_name = "BUG", value_parser = parse_bug)]
    pub plant: Option<Mutation>,
    /// A setting of the processes besides, as in `--set MILLSTREAM_WORKER__BATCH=1`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// Do not begin with the measured recoveries.
    #[arg(long)]
    pub no_drills: bool,
    /// How long everything may take to settle after the last post, beyond the settings' own times.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_length)]
    pub patience: Duration,
    /// Keep the logs also of a run that found nothing.
    #[arg(long)]
    pub keep: bool,
    /// Write the report as JSON to this file as well.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TortureTimes {
    /// Lease 1.5 s, reclaim idle 3 s, …
    Tenth,
    /// As `millstream config` prints them.
    Default,
}

impl TortureOptions {
    /// Reports impossible options before the run begins.
    pub fn validate_options(&self) -> Result<(), String> {
        if !self.binary.is_file() {
            return Err(format!("--binary: there is no file {}", self.binary.display()));
        }
        if self.plant.is_some() && !obeys_drills(&self.binary) {
            return Err("--plant: this binary has no debug assertions, and so no bugs to plant".to_owned());
        }
        for (least, what, given) in [(1, "--workers", self.workers), (1, "--ingresses", self.ingresses)] {
            if given < least {
                return Err(format!("{what}: at least {least} is needed"));
            }
        }
        if self.rate == 0 { Err("--rate: at least 1 is needed".to_owned()) } else { Ok(()) }
    }

    /// The kinds that this run may inject, or an error about the names.
    pub fn fault_kinds(&self) -> Result<Vec<FaultKind>, String> {
        if self.only.is_empty() {
            return Ok(FaultKind::ALL.to_vec());
        }
        if self.only.iter().any(|name| name == "none") {
            return Ok(Vec::new());
        }
        self.only
            .iter()
            .map(|name| {
                FaultKind::parse(name)
                    .ok_or_else(|| format!("there is no fault {name:?}; known: {}", known_kinds()))
            })
            .collect()
    }
}

/// Whether the binary has debug assertions, and so accepts fault injection.
pub fn obeys_drills(binary: &Path) -> bool {
    let asked = bare_command(binary).arg("config").env("MILLSTREAM_PLANT", "no-fence").output();
    asked.is_ok_and(|output| output.status.success())
}

fn known_kinds() -> String {
    FaultKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn parse_length(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is written NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn parse_bug(text: &str) -> Result<Mutation, String> {
    let known = || Mutation::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
    Mutation::parse(text).ok_or_else(|| format!("there is no such bug; known: {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_for(names: &str) -> TortureOptions {
        TortureOptions::parse_from(["torture", "--binary", "x", "--only", names])
    }

    #[test]
    fn kinds_are_named_or_all() {
        assert_eq!(
            TortureOptions::parse_from(["torture", "--binary", "x"]).fault_kinds().unwrap(),
            FaultKind::ALL
        );
        assert_eq!(
            options_for("worker-kill,net-slow").fault_kinds().unwrap(),
            [FaultKind::WorkerKill, FaultKind::NetSlow]
        );
        assert_eq!(options_for("none").fault_kinds().unwrap(), []);
    }

    #[test]
    fn unknown_fault_kind_lists_known_ones() {
        let error = options_for("worker-kil").fault_kinds().unwrap_err();
        assert!(error.contains("worker-kil") && error.contains("worker-kill-mid-commit"), "{error}");
    }
}
