//! The words of `millstream run`.

use clap::{Args, Subcommand};

use super::ResolutionReasonArgs;

const EXAMPLES: &str = "\
Examples:
  millstream run list --status reassigning         runs that look for a device
  millstream run get film-1                        who has it, who had it, how far it is
  millstream why film-1                            why that device, with the scores of all devices
  millstream run log film-1                        everything that happened to it
  millstream run retry film-1                      a failed run begins again; every device may be asked
  millstream run assign film-1 phone-7             give a free seat to a device
  millstream run cancel film-1 --reason 'not needed any more'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    pub command: RunCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List runs, the newest first
    List(RunListArgs),
    /// Show a run: its seats, who has them and who had them
    Get {
        /// The run's id
        run: String,
    },
    /// Show what happened to a run, in order
    Log {
        /// The run's id
        run: String,
        /// At most this many lines
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Begin a failed run again
    Retry {
        /// The run's id
        run: String,
    },
    /// Stop assigning a run; its device keeps it and is notified
    Pause {
        /// The run's id
        run: String,
    },
    /// Let a paused run go on, with all its time limits restarted
    Resume {
        /// The run's id
        run: String,
    },
    /// End a run as failed; its devices are notified
    Cancel {
        /// The run's id
        run: String,
        #[command(flatten)]
        why: ResolutionReasonArgs,
    },
    /// Give a free seat to a device
    Assign {
        /// The run's id
        run: String,
        /// The device's id
        device: String,
        /// Which seat, of a run with several
        #[arg(long, default_value_t = 0)]
        seat: u16,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunListArgs {
    /// created, assigned, claimed, processing, reassigning, completed or failed
    #[arg(long)]
    pub status: Option<String>,
    /// Only of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Only of this execution
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}
