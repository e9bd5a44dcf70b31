//! The command line: arguments and help texts.

mod bench;
mod device;
mod graph;
mod incidents;
mod people;
mod quota;
mod run;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use millstream_runtime::config::ConfigFlags;

pub(crate) use bench::BenchStartArgs;
pub(crate) use device::{DeviceArgs, DeviceCommand};
pub(crate) use graph::{
    GraphArgs, GraphCommand, GraphCreateArgs, GraphEditArgs, GraphGetArgs, GraphShowArgs,
};
pub(crate) use incidents::{
    IncidentSelectionArgs, IncidentsArgs, IncidentsCommand, IncidentsListArgs, ResolutionReasonArgs,
    SignalArgs,
};
pub(crate) use people::{
    AssignmentArgs, AssignmentCommand, AssignmentListArgs, PersonArgs, PersonCommand, QueueArgs,
    QueueCommand, QueueStatsBy, StatsArgs,
};
pub(crate) use quota::{QuotaArgs, QuotaCommand};
pub(crate) use run::{RunArgs, RunCommand, RunListArgs};

const EXIT_CODES: &str = "\
Exit codes: 0 done · 1 a check found a difference · 2 wrong usage or invalid input · \
3 refused or not found · 4 the server or a service cannot be reached";

const WHY_EXAMPLES: &str = "\
Examples:
  millstream why film-1                    its device, previous devices, and all scores at the last choice
  millstream why default/o-1/4/charge      why it is not performed, and which workers are connected";

/// A durable, event-sourced workflow engine.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
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
}

impl GlobalArgs {
    /// The given ones, for a program that has the same flags.
    pub(crate) fn given_flags(&self) -> Vec<(&'static str, Option<OsString>)> {
        let config = self.config.as_ref().map(|file| file.clone().into_os_string());
        let text = |value: &Option<String>| value.as_ref().map(OsString::from);
        let valued = [
            ("--config", config),
            ("--log", text(&self.log)),
            ("--database-url", text(&self.database_url)),
            ("--redis-url", text(&self.redis_url)),
            ("--url", text(&self.url)),
        ];
        let valued = valued.into_iter().filter(|(_, value)| value.is_some());
        self.json.then_some(("--json", None)).into_iter().chain(valued).collect()
    }

    pub(crate) fn config_flags(&self, listen: Option<SocketAddr>) -> ConfigFlags {
        ConfigFlags {
            database_url: self.database_url.clone(),
            redis_url: self.redis_url.clone(),
            listen,
            url: self.url.clone(),
            log: self.log.clone(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run everything in this process: SQLite, no services
    Dev(DevArgs),
    /// Run the HTTP door of a fleet
    Ingress(IngressArgs),
    /// Run a worker of a fleet
    Worker,
    /// Bring the database's tables up to date
    Migrate(MigrateArgs),
    /// Check a definition without a server
    Check(CheckArgs),
    /// Store a definition on the server
    Apply(ApplyArgs),
    /// Start an execution
    Start(StartArgs),
    /// Send an event to an execution
    Send(SendArgs),
    /// Send an event to whichever execution has a correlation, now or soon
    Signal(SignalArgs),
    /// Show an execution, or an event with --event
    Get(GetArgs),
    /// List executions
    List(ListArgs),
    /// Follow an execution's transitions as they happen
    Tail(TailArgs),
    /// Graphs of nodes that executors perform: create, watch, draw, edit
    Graph(GraphArgs),
    /// Devices that do runs: list, get, pause, resume, remove
    Device(DeviceArgs),
    /// Runs of devices: who has them, who had them; retry, pause, cancel, assign
    Run(RunArgs),
    /// Queues of work for people: put, import, pause; where it stands, as a table and as bars
    Queue(QueueArgs),
    /// Items that people have or had: list, reassign
    Assignment(AssignmentArgs),
    /// People who do work: list, put, pause
    Person(PersonArgs),
    /// Rebuild executions from their log and compare with what is stored
    Replay(ReplayArgs),
    /// Failures that wait for a decision: list, retry, skip, fail, cancel
    Incidents(IncidentsArgs),
    /// Events that were put aside because they could not be decided
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Cancel an execution
    Cancel(CancelArgs),
    /// Say why a run is where it is, or why an action is not performed
    Why(WhyArgs),
    /// Show the workers that are up
    Workers,
    /// What tenants may use, and what they use: get, set, usage
    Quota(QuotaArgs),
    /// API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the effective settings
    Config(ConfigArgs),
    /// Print a completion script for your shell
    Completions(CompletionsArgs),
    /// See it work: a few hundred orders, a worker killed in the middle, nothing lost
    Demo(DemoArgs),
    /// Measure throughput and latency, of a running engine or of one started for it
    Bench(BenchStartArgs),
    /// `worker` as a bench starts it: with a function in Rust
    #[command(hide = true)]
    BenchWorker,
    /// `dev` as a bench starts it: with a function in Rust
    #[command(hide = true)]
    BenchDev(DevArgs),
    /// Start a project with an action in Rust
    New(NewArgs),
}

impl CliCommand {
    /// The address from the role's own flag.
    pub(crate) fn listen_address(&self) -> Option<SocketAddr> {
        if let Self::Dev(DevArgs { listen, .. })
        | Self::BenchDev(DevArgs { listen, .. })
        | Self::Ingress(IngressArgs { listen, .. }) = self
        {
            return *listen;
        }
        None
    }
}

#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
pub(crate) struct WhyArgs {
    /// A run, as `millstream run list` shows it; or the key of an action: default/o-1/4/charge
    #[arg(value_name = "RUN|KEY")]
    pub key: String,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// The directory of the engine (default: .millstream)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where to listen (default: 127.0.0.1:7400)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// How many worker loops to run
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Serve a non-loopback address although no key exists: every client that reaches it is admin
    #[arg(long)]
    pub insecure_no_auth: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IngressArgs {
    /// Where to listen (default: 127.0.0.1:7400)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Serve a non-loopback address although no key exists: every client that reaches it is admin
    #[arg(long)]
    pub insecure_no_auth: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Only say what is missing; exit 1 if anything is
    #[arg(long, conflicts_with = "finish")]
    pub check: bool,
    /// After every process runs this release: record that older ones may no longer start
    #[arg(long)]
    pub finish: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A definition in YAML or JSON; `-` reads standard input
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A definition in YAML or JSON; `-` reads standard input
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The definition's name
    pub definition: String,
    /// A version other than the latest
    #[arg(long)]
    pub version: Option<i32>,
    /// An id of your own: starting it twice with the same input starts it once
    #[arg(long)]
    pub id: Option<String>,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// An event to append in the same commit: NAME or NAME=JSON; may be repeated
    #[arg(long = "event", value_name = "NAME[=JSON]")]
    pub events: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The execution's id
    pub execution: String,
    /// The event's name
    pub event: String,
    /// The payload as JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    /// An idempotency key: sending it twice sends it once
    #[arg(long)]
    pub key: Option<String>,
    /// Wait up to this many seconds until the event is decided and its actions are settled
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The execution's id
    #[arg(required_unless_present = "event")]
    pub execution: Option<String>,
    /// Show this event instead
    #[arg(long, value_name = "EVENT_ID", conflicts_with = "execution")]
    pub event: Option<String>,
    /// The state after this transition
    #[arg(long, value_name = "SEQ")]
    pub at_seq: Option<i64>,
    /// Show its transitions too
    #[arg(long)]
    pub history: bool,
    /// Show its actions and timers too
    #[arg(long)]
    pub work: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[arg(long)]
    pub definition: Option<String>,
    #[arg(long)]
    pub state: Option<String>,
    /// active, paused, completed, failed or cancelled
    #[arg(long)]
    pub status: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The execution's id
    pub execution: String,
    /// Only transitions after this one
    #[arg(long, value_name = "SEQ")]
    pub after: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The execution's id
    #[arg(required_unless_present = "all")]
    pub execution: Option<String>,
    /// Every execution of the tenant
    #[arg(long, conflicts_with = "execution")]
    pub all: bool,
    /// Exit 1 if the log and the stored state differ
    #[arg(long)]
    pub check: bool,
    /// Show the state after this transition
    #[arg(long, value_name = "SEQ", conflicts_with = "all")]
    pub at: Option<i64>,
    /// Decide every event again with the present engine and report what would differ
    #[arg(long)]
    pub redecide: bool,
    /// Whose executions
    #[arg(long, default_value = "default")]
    pub tenant: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead events
    List {
        /// Only of this execution
        #[arg(long)]
        execution: Option<String>,
    },
    /// Try events again
    Retry {
        /// Ids of dead (or failed) events
        #[arg(required = true)]
        events: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The execution's id
    pub execution: String,
    /// Why; kept in its history
    #[arg(long)]
    pub reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; it is shown once
    Create(NewKeyArgs),
    /// List keys (never the secrets)
    List,
    /// Make a successor of a key; the old one expires after the overlap
    Rotate {
        name: String,
        #[arg(long, default_value = "default")]
        tenant: String,
        /// A key with the role operator, which belongs to no tenant
        #[arg(long, conflicts_with = "tenant")]
        operator: bool,
        /// How long the old key works on, such as 7d
        #[arg(long, value_name = "LENGTH", default_value = "7d", value_parser = parse_length)]
        overlap: Duration,
        /// After how long the new key expires; without it, as long as the old one was to live
        #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
        expires: Option<Duration>,
    },
    /// Make a key useless
    Revoke {
        name: String,
        #[arg(long, default_value = "default")]
        tenant: String,
        /// A key with the role operator, which belongs to no tenant
        #[arg(long, conflicts_with = "tenant")]
        operator: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewKeyArgs {
    /// A name for it: events it sends carry it as `actor`
    pub name: String,
    #[arg(long, default_value = "default")]
    pub tenant: String,
    /// What it may do: admin, operator, submit, read, worker, executor, device or work
    #[arg(long)]
    pub role: Option<String>,
    /// After how long it expires, such as 90d; without it, never
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub expires: Option<Duration>,
    /// The person that a key with the role work is bound to
    #[arg(long, value_name = "ID")]
    pub person: Option<String>,
    /// The device that a key with the role device is bound to
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Only if no key was ever created
    #[arg(long)]
    pub once: bool,
}

fn parse_length(text: &str) -> Result<Duration, String> {
    millstream_model::duration::parse(text).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print the commented defaults instead
    #[arg(long)]
    pub default: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many orders
    #[arg(long, default_value_t = 300)]
    pub orders: usize,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Where to put it; must not exist, or be empty
    pub dir: PathBuf,
    /// Take the SDK from this directory (crates/sdk of a checkout)
    #[arg(long, value_name = "DIR", conflicts_with = "sdk_git")]
    pub sdk_path: Option<PathBuf>,
    /// Take the SDK from this git repository
    #[arg(long, value_name = "URL")]
    pub sdk_git: Option<String>,
}
