//! The arguments of `millstream bench`.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use millstream_runtime::config::ConfigFlags;

use super::work_arguments::{BenchDevicesArgs, BenchFairnessArgs, BenchPeopleArgs};

const BENCH_EXAMPLES: &str = "\
Workloads:
  many     each event to another execution: one guard, one `set`, one action through lease and settle
  plain    the same without the action
  chain    ten events for each execution
  hot      all events to ten executions
  payload  as many, with 10 KiB of payload
  backlog  the workers start when 200,000 events are waiting for them
  history  one execution with 50,000 events: what the next one costs, beside the first of a new one
  http     as many, with an HTTP action against a sink in this process (see --action-wait)
  call     as many, with a function in Rust that the worker brings along
  task     as call, with a task that workers outside the engine lease and complete

Examples:
  millstream bench --embedded                      all of it on SQLite, nothing to install
  millstream bench --fleet 2 --database-url postgres://… --redis-url redis://…
  millstream bench --fleet 2 --workload all --runs 5 --plot bench.svg
  millstream bench --url http://127.0.0.1:7400 --measure latency --rate 100,500
  millstream bench --embedded --measure throughput --submit single --json
  millstream bench graph --embedded                graphs: see `millstream bench graph --help`
  millstream bench people --embedded               people and their queues: see `millstream bench people --help`
  millstream bench expressions                     hostile expressions, in this process: CPU and memory of one step
  millstream bench devices --embedded              devices and their runs: see `millstream bench devices --help`

A run that starts an engine has a private database (or directory) and private Redis keys beside yours,
which it removes afterwards. The environment's settings (MILLSTREAM_WORKER__BATCH and the like) reach the
processes that it starts. A run in which an event is lost or not completed fails with exit code 1.";

/// Measure throughput and latency, of a running engine or of one started for it
#[derive(Debug, Parser)]
// Options that belong to a subcommand follow its name.
#[command(name = "millstream-bench", version, after_help = BENCH_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub subject: BenchSubject,
    /// Which figures, separated by commas: throughput, latency, floor, pollers (default: all but pollers)
    #[arg(long, value_name = "LIST", help_heading = "What is measured")]
    pub measure: Option<String>,
    /// Also the least that three tables on PostgreSQL could cost
    #[arg(long, help_heading = "What is measured")]
    pub floor_raw: bool,
    /// What to run, separated by commas; `all` for all of them
    #[arg(long, value_name = "LIST", default_value = "many", help_heading = "Load")]
    pub workload: String,
    /// One POST per event, or many events per POST
    #[arg(long, value_enum, default_value_t = SubmitArg::Ndjson, help_heading = "Load")]
    pub submit: SubmitArg,
    /// Events per request with --submit ndjson
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Load")]
    pub batch: usize,
    /// How workers outside the engine tell that tasks are done: one request for each, or for all of a lease
    #[arg(long, value_enum, default_value_t = CompleteArg::Batch, help_heading = "Load")]
    pub complete: CompleteArg,
    /// Connections of the generator (default: 64 for single, 8 for ndjson)
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub connections: Option<usize>,
    /// Events per run (default: as the workload says)
    #[arg(long, value_name = "N", conflicts_with = "length", help_heading = "Load")]
    pub events: Option<usize>,
    /// Send for this length of time instead of a number of events, for example 10s
    #[arg(long = "for", id = "length", value_name = "TIME", help_heading = "Load")]
    pub length: Option<String>,
    /// Rates for latency: events per second, or a part of what single POSTs reach
    #[arg(long, value_name = "LIST", default_value = "100,50%", help_heading = "Load")]
    pub rate: String,
    /// Events before the measured ones, discarded
    #[arg(long, value_name = "N", default_value_t = 2000, help_heading = "Load")]
    pub warmup: usize,
    /// How late the sink answers HTTP actions, for example 5ms
    #[arg(long, value_name = "TIME", help_heading = "Engine")]
    pub action_wait: Option<String>,
    /// Workers outside the engine that wait for tasks, for --measure pollers
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Load")]
    pub pollers: usize,
    #[command(flatten)]
    pub global: BenchGlobalArgs,
}

// The options that `millstream` has for every command, and the binary that is measured. No doc comment: as one of a
// flattened struct it would replace the description of the command.
#[derive(Debug, Args)]
pub(crate) struct BenchGlobalArgs {
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// A settings file (see `millstream config`)
    #[arg(long, global = true, value_name = "FILE", env = "MILLSTREAM_CONFIG")]
    pub config: Option<PathBuf>,
    /// What to log, for example `debug` or `millstream_worker=debug`
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Settings")]
    pub log: Option<String>,
    /// Where the data lives: postgres://… or sqlite://…
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    pub database_url: Option<String>,
    /// The doorbell of a fleet: redis://…
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    pub redis_url: Option<String>,
    /// Where client commands talk to
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    pub url: Option<String>,
    /// The `millstream` to start (default: the one beside this program, else the one in PATH)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Engine")]
    pub binary: Option<PathBuf>,
}

impl BenchGlobalArgs {
    pub(crate) fn config_flags(&self) -> ConfigFlags {
        ConfigFlags {
            database_url: self.database_url.clone(),
            redis_url: self.redis_url.clone(),
            listen: None,
            url: self.url.clone(),
            log: self.log.clone(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure graphs of nodes that do nothing: nodes per second, and what a node costs
    Graph(BenchGraphArgs),
    /// Measure people who work off a queue, or who ask while a million items wait
    People(BenchPeopleArgs),
    /// Measure devices: runs that are given to them in the request, accepted, started and completed
    Devices(BenchDevicesArgs),
    /// Measure hostile expressions: the most CPU and memory that one step takes
    Expressions(BenchExpressionsArgs),
    /// Measure what a backlog of one tenant costs another
    Fairness(BenchFairnessArgs),
    /// Print a completion script of `millstream-bench` for your shell
    Completions(BenchCompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchCompletionsArgs {
    pub shell: clap_complete::Shell,
}

impl BenchCompletionsArgs {
    pub(crate) fn script(&self) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut BenchArgs::command(), "millstream-bench", &mut script);
        String::from_utf8_lossy(&script).trim_end().to_owned()
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchExpressionsArgs {
    /// Steps that are decided
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub cases: usize,
    /// What the generated ones are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

// Options of every bench.
#[derive(Debug, Args)]
pub(crate) struct BenchSubject {
    /// Start `millstream dev` in a temporary directory and measure it
    #[arg(long, conflicts_with = "fleet", help_heading = "What is measured")]
    pub embedded: bool,
    /// Start an ingress and N workers on --database-url and --redis-url and measure them
    #[arg(long, value_name = "N", help_heading = "What is measured")]
    pub fleet: Option<usize>,
    /// Runs of each; the median one is shown
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub runs: usize,
    /// Actions that each worker performs at the same time
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub action_slots: Option<usize>,
    /// Worker loops of an embedded engine
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Engine")]
    pub loops: usize,
    /// Write the figures as a picture
    #[arg(long, value_name = "FILE.svg", help_heading = "Output")]
    pub plot: Option<PathBuf>,
    /// Seconds-long sizes: shows that it works, not how fast
    #[arg(long, help_heading = "Load")]
    pub smoke: bool,
}

const GRAPH_EXAMPLES: &str = "\
Shapes:
  flat    nodes without parents, and one after all of them
  levels  one node, branches after it, as many leaves after each, and one node after all leaves

Examples:
  millstream bench graph --embedded                1,000 and 10,000 nodes on SQLite, nothing to install
  millstream bench graph --embedded --nodes 10000 --shape flat --runs 5
  millstream bench graph --fleet 1 --database-url postgres://… --redis-url redis://…
  millstream bench graph --url http://127.0.0.1:7400

The executor is this process, on a thread of its own, and answers at once. A graph counts from the request that
creates it until it has ended. A run in which a node has not passed, or is recorded more than once, fails with exit
code 1.";

#[derive(Debug, Args)]
#[command(after_help = GRAPH_EXAMPLES)]
pub(crate) struct BenchGraphArgs {
    #[command(flatten)]
    pub subject: BenchSubject,
    /// Sizes of graphs, separated by commas (default: 1000,10000)
    #[arg(long, value_name = "LIST", help_heading = "Load")]
    pub nodes: Option<String>,
    /// Shapes of graphs, separated by commas: flat, levels; `all` for both
    #[arg(long, value_name = "LIST", default_value = "all", help_heading = "Load")]
    pub shape: String,
    /// Nodes that the executor says it performs at once
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Load")]
    pub capacity: u32,
    /// Nodes of a graph before the measured ones, discarded; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Load")]
    pub warmup: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompleteArg {
    Single,
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubmitArg {
    Single,
    Ndjson,
}
