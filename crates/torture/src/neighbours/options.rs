//! The options of a neighbour torture.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::attack::NeighbourAttack;
use crate::options::parse_length;

/// Attacks a fleet as a hostile tenant and as anonymous clients, and measures what an honest tenant waits for.
#[derive(Debug, Clone, Parser)]
#[command(name = "torture neighbours")]
pub struct NeighbourOptions {
    /// The binary under test.
    #[arg(long, value_name = "PATH")]
    pub binary: PathBuf,
    /// The same seed draws the same choices. Without it one is drawn and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// How long each attack lasts.
    #[arg(long = "for", value_name = "TIME", default_value = "15s", value_parser = parse_length)]
    pub length: Duration,
    #[arg(long, default_value_t = 2)]
    pub workers: usize,
    /// Events per second of the honest tenant.
    #[arg(long, default_value_t = 100)]
    pub rate: u64,
    /// Events that the hostile tenant posts in a burst.
    #[arg(long, default_value_t = 100_000)]
    pub burst: usize,
    /// Only these attacks, separated by commas.
    #[arg(long, value_name = "ATTACKS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The longest accepted p99 of the time from sending an event to its 202.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_length)]
    pub accept_p99: Duration,
    /// The longest accepted p99 of the time from sending an event to the arrival of its action at the target.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_length)]
    pub action_p99: Duration,
    /// The longest accepted time of an answer of `/healthz`, `/readyz` and `/metrics`.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_length)]
    pub health: Duration,
    /// The largest resident memory that any process may reach, in MiB.
    #[arg(long, default_value_t = 512)]
    pub memory_mib: u64,
    /// How long everything may take to settle after the last attack.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_length)]
    pub patience: Duration,
    /// Write the report as JSON to this file as well.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl NeighbourOptions {
    /// Reports impossible options before the run begins.
    pub fn validate_options(&self) -> Result<(), String> {
        if !self.binary.is_file() {
            return Err(format!("--binary: there is no file {}", self.binary.display()));
        }
        if self.rate == 0 {
            return Err("--rate: at least 1 is needed".to_owned());
        }
        if self.workers == 0 {
            return Err("--workers: at least 1 is needed".to_owned());
        }
        self.attacks().map(|_| ())
    }

    /// The requested attacks, or an error about their names.
    pub fn attacks(&self) -> Result<Vec<NeighbourAttack>, String> {
        if self.only.is_empty() {
            return Ok(NeighbourAttack::ALL.to_vec());
        }
        let named = |name: &String| {
            let known =
                || NeighbourAttack::ALL.iter().map(|attack| attack.name()).collect::<Vec<_>>().join(", ");
            NeighbourAttack::parse(name)
                .ok_or_else(|| format!("there is no attack {name:?}; known: {}", known()))
        };
        self.only.iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_named_or_all() {
        let options =
            |only: &[&str]| NeighbourOptions::parse_from(["torture", "--binary", "x"].iter().chain(only));
        assert_eq!(options(&[]).attacks().unwrap(), NeighbourAttack::ALL);
        assert_eq!(
            options(&["--only", "tails,burst"]).attacks().unwrap(),
            [NeighbourAttack::Tails, NeighbourAttack::Burst]
        );
        let error = options(&["--only", "tail"]).attacks().unwrap_err();
        assert!(error.contains("tails"), "{error}");
    }
}
