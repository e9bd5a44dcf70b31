//! The words of `millstream incidents` and `millstream signal`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  millstream incidents --status open               what waits for a decision
  millstream incidents groups                      the same by what is wrong, the largest first
  millstream incidents retry --group 3f9c21d07be4a815 --reason 'the bank is back'

  millstream incidents show ID --input >input.json
  $EDITOR input.json
  millstream incidents retry ID --input input.json --reason 'wrong account'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IncidentsArgs {
    #[command(subcommand)]
    pub command: Option<IncidentsCommand>,
    #[command(flatten)]
    pub list: IncidentsListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct IncidentsListArgs {
    /// open or resolved
    #[arg(long)]
    pub status: Option<String>,
    /// Only of this group
    #[arg(long, value_name = "FINGERPRINT")]
    pub group: Option<String>,
    /// Only of this execution
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
    /// Only of this definition
    #[arg(long)]
    pub definition: Option<String>,
    /// At most this many (default: 50)
    #[arg(long)]
    pub limit: Option<usize>,
}

impl IncidentsListArgs {
    /// Whether the list was filtered: filters do not apply to a subcommand. (If clap checked this, it would
    /// also refuse `--json` before a subcommand.)
    pub(crate) fn is_narrowed(&self) -> bool {
        let Self { status, group, execution, definition, limit } = self;
        limit.is_some() || [status, group, execution, definition].into_iter().any(Option::is_some)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum IncidentsCommand {
    /// Open incidents by what they have in common, the largest groups first
    Groups {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Show one incident: what failed, how often it was tried, with which input
    Show {
        /// The incident's id
        incident: String,
        /// Print the input alone, ready to be edited
        #[arg(long)]
        input: bool,
    },
    /// Try it again, as it was or with an edited input
    Retry {
        #[command(flatten)]
        which: IncidentSelectionArgs,
        /// The whole edited input as JSON; `-` reads standard input. It is performed under a new key
        #[arg(long, value_name = "FILE", conflicts_with = "group")]
        input: Option<PathBuf>,
        #[command(flatten)]
        why: ResolutionReasonArgs,
    },
    /// Go on as if the action had succeeded
    Skip {
        /// The incident's id
        incident: String,
        /// What the action would have returned, as JSON or @FILE; an event that could not be decided has none
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
        #[command(flatten)]
        why: ResolutionReasonArgs,
    },
    /// End the execution as failed
    Fail {
        #[command(flatten)]
        which: IncidentSelectionArgs,
        #[command(flatten)]
        why: ResolutionReasonArgs,
    },
    /// End the execution as cancelled
    Cancel {
        #[command(flatten)]
        which: IncidentSelectionArgs,
        #[command(flatten)]
        why: ResolutionReasonArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct IncidentSelectionArgs {
    /// The incident's id
    #[arg(required_unless_present = "group", value_name = "ID")]
    pub incident: Option<String>,
    /// All open incidents of this group instead (see `incidents groups`)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "incident")]
    pub group: Option<String>,
    /// Of a group, at most this many, the newest first
    #[arg(long, value_name = "N", requires = "group")]
    pub limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolutionReasonArgs {
    /// Why; recorded with who decided
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// What the execution is known by: the value of its definition's `correlate`
    pub correlation: String,
    /// The event's name
    pub event: String,
    /// The payload as JSON, or @FILE
    #[arg(value_name = "JSON")]
    pub payload: Option<String>,
    /// Only for an execution of this definition
    #[arg(long)]
    pub definition: Option<String>,
    /// How long it is kept for an execution that does not exist yet (default: 24h, at most 30d)
    #[arg(long, value_name = "TIME")]
    pub wait_for: Option<String>,
    /// An idempotency key: sending it twice sends it once
    #[arg(long)]
    pub key: Option<String>,
}
