//! The words of `millstream graph`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  millstream graph check examples/graphs/diamond.yaml
  millstream graph create examples/graphs/diamond.yaml --id d-1 --wait
  millstream graph watch d-1                       what happens, as it happens
  millstream graph show d-1                        the graph with where every node stands
  millstream graph show d-1 --svg d-1.svg
  millstream graph get d-1 --node left --logs      one node: its result, and what its executor wrote
  millstream graph edit d-1 patch.yaml             change the shape of a graph that runs
  millstream graph cancel d-1 --reason 'not needed any more'

The language of graphs: docs/GRAPHS.md";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    pub command: GraphCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Check a graph without a server
    Check {
        /// A graph in YAML or JSON; `-` reads standard input
        file: PathBuf,
    },
    /// Create a graph: its first nodes run at once
    Create(GraphCreateArgs),
    /// Show a graph, its nodes, or one node
    Get(GraphGetArgs),
    /// List graphs, newest first
    List {
        /// RUNNING, PASSED, FAILED, CANCELLED or PAUSED
        #[arg(long)]
        status: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Follow what happens to a graph, one line for each event
    Watch {
        /// The graph's id
        graph: String,
        /// Only what came after this position, as `--json` shows it
        #[arg(long, value_name = "POSITION")]
        after: Option<String>,
    },
    /// Change the shape of a graph that runs: all edits of a file, or none
    Edit(GraphEditArgs),
    /// End a graph: what runs is called off, what waits is not begun
    Cancel {
        /// The graph's id
        graph: String,
        /// Why; kept in its history
        #[arg(long)]
        reason: Option<String>,
    },
    /// Draw a graph with where every node stands
    Show(GraphShowArgs),
    /// Show the executors that can perform nodes
    Executors,
}

#[derive(Debug, Args)]
pub(crate) struct GraphCreateArgs {
    /// A graph in YAML or JSON; `-` reads standard input
    pub file: PathBuf,
    /// An id of your own: creating it twice creates it once
    #[arg(long)]
    pub id: Option<String>,
    /// Wait until it has ended; exit 3 unless it has passed
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphGetArgs {
    /// The graph's id
    pub graph: String,
    /// Show its nodes too
    #[arg(long, conflicts_with = "node")]
    pub nodes: bool,
    /// Only nodes in this status, for example PENDING or TASK_ERROR
    #[arg(long, requires = "nodes")]
    pub status: Option<String>,
    /// Show this node instead
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Show what executors wrote while they performed the node
    #[arg(long, requires = "node")]
    pub logs: bool,
}

const PATCH: &str = "\
A patch:
  expected_revision: 1          # as `millstream graph get` shows it; 409 if it is another one by now
  edits:
    - insert: { id: review, parents: [draft], task: { goal: read it once more } }
    - update: { id: publish, parents: [review] }    # replaces the whole node
    - delete: spellcheck

Only nodes that are PENDING can be updated or deleted. New nodes may come after any node.";

#[derive(Debug, Args)]
#[command(after_help = PATCH)]
pub(crate) struct GraphEditArgs {
    /// The graph's id
    pub graph: String,
    /// The edits in YAML or JSON; `-` reads standard input
    pub file: PathBuf,
    /// The revision that the edits were made for; instead of the one in the file
    #[arg(long, value_name = "N")]
    pub expected_revision: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct GraphShowArgs {
    /// The graph's id
    pub graph: String,
    /// As text (which it is unless --svg is given)
    #[arg(long)]
    pub ascii: bool,
    /// Write a picture to this file; `-` writes it to standard output
    #[arg(long, value_name = "FILE", conflicts_with = "ascii")]
    pub svg: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{Cli, CliCommand};

    fn parse_graph_command(words: &str) -> Result<GraphCommand, String> {
        let words = ["millstream", "graph"].into_iter().chain(words.split(' '));
        let command = Cli::try_parse_from(words).map_err(|error| error.to_string())?.command;
        if let CliCommand::Graph(GraphArgs { command }) = command {
            return Ok(command);
        }
        Err(format!("{command:?}"))
    }

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_people_type_is_understood() {
        for words in [
            "check graph.yaml",
            "create - --id g-1 --wait",
            "get g-1 --nodes --status PENDING",
            "get g-1 --node left --logs",
            "list --status RUNNING --limit 5",
            "watch g-1 --after 12.0",
            "watch g-1 --json",
            "edit g-1 patch.yaml --expected-revision 3",
            "cancel g-1 --reason enough",
            "show g-1",
            "show g-1 --ascii",
            "show g-1 --svg out.svg",
            "executors",
        ] {
            assert!(parse_graph_command(words).is_ok(), "{words}: {:?}", parse_graph_command(words));
        }
        let Ok(GraphCommand::Create(create)) = parse_graph_command("create - --wait") else {
            panic!("no create")
        };
        assert_eq!((create.file, create.id, create.wait), (PathBuf::from("-"), None, true));
    }

    #[test]
    fn contradicting_arguments_are_refused() {
        for words in [
            "create",
            "get g-1 --logs",
            "get g-1 --status PASS",
            "get g-1 --nodes --node left",
            "show g-1 --ascii --svg out.svg",
            "edit g-1 patch.yaml --expected-revision -1",
        ] {
            assert!(parse_graph_command(words).is_err(), "{words}");
        }
    }
}
