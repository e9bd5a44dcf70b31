//! Options of a torture run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use millstream_core::duration;
use millstream_core::planted::Bug;

use crate::kind::Kind;
use crate::stage::bare;

/// Breaks a private fleet with seeded faults and checks that nothing was lost.
#[derive(Debug, Clone, Parser)]
#[command(name = "torture")]
pub struct Options {
    /// How long faults are injected, e.g. 60s or 10m.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = length)]
    pub length: Duration,
    /// The same seed gives the same faults in the same order. Without it one is drawn and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The binary under test.
    #[arg(long, value_name = "PATH")]
    pub binary: PathBuf,
    /// How the durations are set: a tenth of the defaults, or the defaults.
    #[arg(long, value_enum, default_value_t = Times::Tenth)]
    pub times: Times,
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
    #[arg(long, value_name = "BUG", value_parser = bug)]
    pub plant: Option<Bug>,
    /// A setting of the processes besides, as in `--set MILLSTREAM_WORKER__BATCH=1`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Do not begin with the measured recoveries.
    #[arg(long)]
    pub no_drills: bool,
    /// How long everything may take to settle after the last post, beyond the settings' own times.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = length)]
    pub patience: Duration,
    /// Keep the logs also of a run that found nothing.
    #[arg(long)]
    pub keep: bool,
    /// Write the report as JSON to this file as well.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Times {
    /// Lease 1.5 s, reclaim idle 3 s, …
    Tenth,
    /// As `millstream config` prints them.
    Default,
}

impl Options {
    /// Reports impossible options before the run begins.
    pub fn check(&self) -> Result<(), String> {
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
    pub fn kinds(&self) -> Result<Vec<Kind>, String> {
        if self.only.is_empty() {
            return Ok(Kind::ALL.to_vec());
        }
        if self.only.iter().any(|name| name == "none") {
            return Ok(Vec::new());
        }
        self.only
            .iter()
            .map(|name| {
                Kind::parse(name).ok_or_else(|| format!("there is no fault {name:?}; known: {}", known()))
            })
            .collect()
    }
}

/// Whether the binary has debug assertions, and so accepts fault injection.
pub fn obeys_drills(binary: &Path) -> bool {
    let asked = bare(binary).arg("config").env("MILLSTREAM_PLANT", "no-fence").output();
    asked.is_ok_and(|output| output.status.success())
}

fn known() -> String {
    Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn length(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is written NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn bug(text: &str) -> Result<Bug, String> {
    let known = || Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
    Bug::parse(text).ok_or_else(|| format!("there is no such bug; known: {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &str) -> Options {
        Options::parse_from(["torture", "--binary", "x", "--only", names])
    }

    #[test]
    fn kinds_are_named_or_all() {
        assert_eq!(Options::parse_from(["torture", "--binary", "x"]).kinds().unwrap(), Kind::ALL);
        assert_eq!(only("worker-kill,net-slow").kinds().unwrap(), [Kind::WorkerKill, Kind::NetSlow]);
        assert_eq!(only("none").kinds().unwrap(), []);
    }

    #[test]
    fn an_unknown_kind_is_named_with_those_that_exist() {
        let error = only("worker-kil").kinds().unwrap_err();
        assert!(error.contains("worker-kil") && error.contains("worker-kill-mid-commit"), "{error}");
    }
}
