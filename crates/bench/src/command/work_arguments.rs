//! The arguments of `millstream bench people`, `millstream bench devices` and `millstream bench fairness`.

use clap::Args;

use super::arguments::BenchSubject;

const PEOPLE_EXAMPLES: &str = "\
Examples:
  millstream bench people --embedded               32 people and 20,000 items on SQLite, nothing to install
  millstream bench people --fleet 1 --database-url postgres://… --redis-url redis://…
  millstream bench people --embedded --people 8 --items 5000 --overlap 2
  millstream bench people --fleet 1 --line 1000000 --rate 100 --for 30s …

Every person is one connection that asks (next), begins (start) and hands in (submit), one thing after the other, until
nothing is left. Afterwards every item must be done, by as many different people as it needs, with the answers that
they gave; else the bench fails with exit code 1.

--line N makes a line of N items by statements (ten queues, twenty skills of which each item asks for three, two people for
each item, one item in a hundred that a person may not have), and measures next at a set rate instead.";

#[derive(Debug, Args)]
#[command(after_help = PEOPLE_EXAMPLES)]
pub(crate) struct BenchPeopleArgs {
    #[command(flatten)]
    pub subject: BenchSubject,
    /// People who work at the same time
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Load")]
    pub people: usize,
    /// Items that are imported, as NDJSON (default: 20000)
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub items: Option<usize>,
    /// How many different people each item needs
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub overlap: usize,
    /// Items before the measured ones, discarded; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Load")]
    pub warmup: usize,
    /// Measure `next` in a line of this many items instead; needs --fleet
    #[arg(long, value_name = "N", conflicts_with_all = ["people", "items", "overlap", "warmup"], help_heading = "Load")]
    pub line: Option<usize>,
    /// With --line: requests for an item per second
    #[arg(long, value_name = "N", default_value_t = 100.0, requires = "line", help_heading = "Load")]
    pub rate: f64,
    /// With --line: for how long, for each way of asking (default: 30s)
    #[arg(long = "for", id = "length", value_name = "TIME", requires = "line", help_heading = "Load")]
    pub length: Option<String>,
}

const DEVICES_EXAMPLES: &str = "\
Examples:
  millstream bench devices --embedded              1,000 devices, 500 runs per second, on SQLite
  millstream bench devices --fleet 1 --database-url postgres://… --redis-url redis://…
  millstream bench devices --embedded --devices 50 --rate 100 --for 5s

Devices are registered and heard of every thirty seconds. Runs are created at set times, whatever has become of those
before, and count from when they were due; each is to be given to a device in the request that creates it. Afterwards all of
them are accepted, started and completed as fast as it goes. A run that has no device, or does not stay with the device that
it was given to, fails the bench with exit code 1.";

#[derive(Debug, Args)]
#[command(after_help = DEVICES_EXAMPLES)]
pub(crate) struct BenchDevicesArgs {
    #[command(flatten)]
    pub subject: BenchSubject,
    /// Devices that are registered (default: 1000)
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub devices: Option<usize>,
    /// Runs created per second
    #[arg(long, value_name = "N", default_value_t = 500.0, help_heading = "Load")]
    pub rate: f64,
    /// For how long (default: 20s)
    #[arg(long = "for", id = "length", value_name = "TIME", help_heading = "Load")]
    pub length: Option<String>,
    /// Runs before the measured ones, discarded; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Load")]
    pub warmup: usize,
    /// Runs that are accepted, started and completed at the same time
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Load")]
    pub connections: usize,
}

const FAIRNESS_EXAMPLES: &str = "\
Examples:
  millstream bench fairness --fleet 1 --database-url postgres://… --redis-url redis://…
  millstream bench fairness --fleet 2 --backlog 20000 …

The busy tenant has a backlog of events, and then of HTTP actions whose target answers after 50 ms. The quiet tenant sends
one event after the other and waits for each to be completed: first while nothing else happens, then, from four clients,
beside the backlog. Both are measured with the two tenants in one lane of the stream and in two. The backlog is made while the
workers are stopped, so that all of it waits when they go on; it is worked off once more without the quiet tenant, to
compare the throughput.";

#[derive(Debug, Args)]
#[command(after_help = FAIRNESS_EXAMPLES)]
pub(crate) struct BenchFairnessArgs {
    #[command(flatten)]
    pub subject: BenchSubject,
    /// Events of the busy tenant that wait, and as many actions (default: 100000)
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub backlog: Option<usize>,
    /// Events that the quiet tenant sends while nothing else happens (default: 200)
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub idle: Option<usize>,
}
