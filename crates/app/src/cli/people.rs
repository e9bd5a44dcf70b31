//! The words of `millstream queue`, `millstream assignment` and `millstream person`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const QUEUE_EXAMPLES: &str = "\
Examples:
  millstream queue put review.yaml                 make a queue, or change it
  millstream queue import review items.ndjson      one item a line; importing it again is safe
  millstream queue stats                           where the work stands, as a table and as bars
  millstream queue stats review --by person        who does how much, and how fast
  millstream queue pause review                    stop giving out its items

One line of an import: {\"item_id\": \"s-17\", \"payload\": {\"text\": \"…\"}, \"priority\": 5, \"skills\": [\"german\"]}";

#[derive(Debug, Args)]
#[command(after_help = QUEUE_EXAMPLES)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub command: QueueCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues
    List {
        /// At most this many
        #[arg(long, default_value_t = 200)]
        limit: usize,
    },
    /// Show a queue
    Get {
        /// The queue's name
        queue: String,
    },
    /// Make a queue, or change it
    Put {
        /// A queue in YAML or JSON; `-` reads standard input
        file: PathBuf,
        /// The queue's name, where the file has none
        #[arg(long)]
        name: Option<String>,
    },
    /// Stop giving out items of a queue
    Pause {
        /// The queue's name
        queue: String,
    },
    /// Let a paused queue go on
    Resume {
        /// The queue's name
        queue: String,
    },
    /// Put items into a queue, one JSON object a line
    Import {
        /// The queue's name
        queue: String,
        /// NDJSON; `-` reads standard input
        file: PathBuf,
    },
    /// Show where the work stands, and how fast it goes
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Only of this queue
    pub queue: Option<String>,
    /// A line for each
    #[arg(long, value_enum, default_value_t = QueueStatsBy::Queue)]
    pub by: QueueStatsBy,
    /// Only of this person
    #[arg(long)]
    pub person: Option<String>,
    /// From this day on: 2026-11-01
    #[arg(long, value_name = "DAY")]
    pub from: Option<String>,
    /// Up to this day
    #[arg(long, value_name = "DAY")]
    pub to: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueStatsBy {
    Queue,
    Person,
    Both,
}

const ASSIGNMENT_EXAMPLES: &str = "\
Examples:
  millstream assignment list --person ann          open and past assignments
  millstream assignment list --item s-17           who had an item
  millstream assignment reassign ID                take it away; any person may have it
  millstream assignment reassign ID --to bob       give it to this person";

#[derive(Debug, Args)]
#[command(after_help = ASSIGNMENT_EXAMPLES)]
pub(crate) struct AssignmentArgs {
    #[command(subcommand)]
    pub command: AssignmentCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AssignmentCommand {
    /// List assignments, the newest first
    List(AssignmentListArgs),
    /// Show an assignment
    Get {
        /// The assignment's id
        assignment: String,
    },
    /// Take an assignment away, or give on one that expired or was skipped
    Reassign {
        /// The assignment's id
        assignment: String,
        /// To this person; to any person unless given
        #[arg(long, value_name = "PERSON")]
        to: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AssignmentListArgs {
    /// pending, in_progress, completed, expired or skipped
    #[arg(long)]
    pub status: Option<String>,
    /// Only of this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Only of this person
    #[arg(long)]
    pub person: Option<String>,
    /// Only of this item
    #[arg(long)]
    pub item: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

const PERSON_EXAMPLES: &str = "\
Examples:
  millstream person put ann --skill german --skill law
  millstream person list
  millstream person pause ann                      she is given nothing; what she has she keeps";

#[derive(Debug, Args)]
#[command(after_help = PERSON_EXAMPLES)]
pub(crate) struct PersonArgs {
    #[command(subcommand)]
    pub command: PersonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersonCommand {
    /// List people
    List {
        /// At most this many
        #[arg(long, default_value_t = 200)]
        limit: usize,
    },
    /// Show a person
    Get {
        /// The person's id
        person: String,
    },
    /// Add a person, or replace what they can do
    Put {
        /// The person's id
        person: String,
        /// What they can do; may be repeated
        #[arg(long = "skill", value_name = "SKILL")]
        skills: Vec<String>,
    },
    /// Give a person nothing more
    Pause {
        /// The person's id
        person: String,
    },
    /// Give a person work again
    Resume {
        /// The person's id
        person: String,
    },
}
