//! Workloads: their definition, the target execution of each event, and its payload.

use std::fmt;

use serde::Serialize;

use crate::error::{BenchError, BenchResult};

/// What the engine has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Each event to a different execution: one guard, one `set`, one action through lease and settle.
    Many,
    /// The same without the action.
    Plain,
    /// Ten events per execution.
    Chain,
    /// All events to ten executions.
    Hot,
    /// As `many`, with 10 KiB of payload.
    Payload,
    /// As `many`, but the workers start after everything has been accepted.
    Backlog,
    /// One execution with a long history: the cost of its next event.
    History,
    /// As `many`, with an HTTP action against a sink in this process.
    Http,
    /// As `many`, with a function in Rust registered at the worker.
    Call,
    /// As `call`, with a task that external workers lease and complete over HTTP.
    Task,
}

/// Performers of a workload's actions, in addition to the engine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionPerformers {
    /// The engine alone.
    Engine,
    /// Engine workers with the function [`WORK`].
    Function,
    /// Those, and workers of this process that lease tasks of the type [`WORK`].
    Outside,
}

/// The function of `call`, which `millstream bench-worker` and `bench-dev` have, and the type of `task`.
pub const WORK: &str = "work";

impl Workload {
    pub const ALL: [Self; 10] = [
        Self::Many,
        Self::Plain,
        Self::Chain,
        Self::Hot,
        Self::Payload,
        Self::Backlog,
        Self::History,
        Self::Http,
        Self::Call,
        Self::Task,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Many => "many",
            Self::Plain => "plain",
            Self::Chain => "chain",
            Self::Hot => "hot",
            Self::Payload => "payload",
            Self::Backlog => "backlog",
            Self::History => "history",
            Self::Http => "http",
            Self::Call => "call",
            Self::Task => "task",
        }
    }

    /// A comma-separated list, or `all`. Each workload once, in the order given.
    pub fn parse_list(text: &str) -> BenchResult<Vec<Self>> {
        let mut found = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let meant: &[Self] = if word == "all" { &Self::ALL } else { &[Self::parse_name(word)?] };
            for workload in meant {
                if !found.contains(workload) {
                    found.push(*workload);
                }
            }
        }
        if found.is_empty() { Err(unknown_workload(text)) } else { Ok(found) }
    }

    fn parse_name(word: &str) -> BenchResult<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == word).ok_or_else(|| unknown_workload(word))
    }

    /// Number of events of a full-sized run.
    pub const fn full_size(self) -> usize {
        match self {
            Self::Many | Self::Plain | Self::Chain | Self::Hot => 100_000,
            Self::Call | Self::Task => 50_000,
            Self::Payload | Self::Http => 20_000,
            Self::Backlog => 200_000,
            Self::History => 50_000,
        }
    }

    /// Number of events of a smoke test.
    pub const fn smoke_size(self) -> usize {
        match self {
            Self::Many | Self::Plain | Self::Chain | Self::Hot | Self::Backlog => 400,
            Self::Payload | Self::Http | Self::Call | Self::Task => 100,
            Self::History => 300,
        }
    }

    /// Number of executions that share this number of events, in rotation (round robin).
    pub const fn execution_count(self, events: usize) -> usize {
        let wanted = match self {
            Self::Many
            | Self::Plain
            | Self::Payload
            | Self::Backlog
            | Self::Http
            | Self::Call
            | Self::Task => events,
            Self::Chain => events.div_ceil(10),
            Self::Hot => 10,
            Self::History => 1,
        };
        if wanted == 0 { 1 } else { wanted }
    }

    /// Actions per event.
    pub const fn actions_per_event(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Many
            | Self::Chain
            | Self::Hot
            | Self::Payload
            | Self::Backlog
            | Self::History
            | Self::Http
            | Self::Call
            | Self::Task => 1,
        }
    }

    /// Performers of the actions.
    pub(crate) const fn action_performers(self) -> ActionPerformers {
        match self {
            Self::Many
            | Self::Plain
            | Self::Chain
            | Self::Hot
            | Self::Payload
            | Self::Backlog
            | Self::History
            | Self::Http => ActionPerformers::Engine,
            Self::Call => ActionPerformers::Function,
            Self::Task => ActionPerformers::Outside,
        }
    }

    /// Whether its rows can be written directly to the store: one event per execution, and no external calls.
    pub(crate) const fn has_floor(self) -> bool {
        match self {
            Self::Many | Self::Plain | Self::Payload => true,
            Self::Chain
            | Self::Hot
            | Self::Backlog
            | Self::History
            | Self::Http
            | Self::Call
            | Self::Task => false,
        }
    }

    /// The payload of every event, a JSON object.
    pub fn payload(self) -> String {
        match self {
            Self::Payload => format!("{{\"amount\":7,\"note\":\"{}\"}}", incompressible_text(10 * 1024)),
            Self::Many
            | Self::Plain
            | Self::Chain
            | Self::Hot
            | Self::Backlog
            | Self::History
            | Self::Http
            | Self::Call
            | Self::Task => "{\"amount\":7}".to_owned(),
        }
    }

    /// The definition, under a name of its own. `sink` is the target of HTTP actions.
    pub fn definition(self, sink: &str) -> String {
        let (act, action) = match self {
            Self::Plain => ("", String::new()),
            Self::Http => (
                "          do: [act]\n",
                format!(
                    "actions:\n  act:\n    http: {{ method: POST, url: \"{sink}/${{context.at}}\", body: {{ amount: event.payload.amount }} }}\n"
                ),
            ),
            Self::Many | Self::Chain | Self::Hot | Self::Payload | Self::Backlog | Self::History => {
                ("          do: [act]\n", "actions:\n  act: { noop: event.payload.amount }\n".to_owned())
            }
            Self::Call => (
                "          do: [act]\n",
                format!("actions:\n  act: {{ call: {WORK}, input: {{ amount: event.payload.amount }} }}\n"),
            ),
            Self::Task => (
                "          do: [act]\n",
                format!(
                    "actions:\n  act: {{ task: {{ type: {WORK}, input: {{ amount: event.payload.amount }} }} }}\n"
                ),
            ),
        };
        format!(
            "name: bench_{}\n\
             initial: open\n\
             context: {{ total: 0, least: 1, at: none }}\n\
             states:\n\
             \x20 open:\n\
             \x20   on:\n\
             \x20     go:\n\
             \x20       - if: event.payload.amount >= context.least\n\
             \x20         to: open\n\
             \x20         set: {{ total: context.total + event.payload.amount }}\n\
             {act}{action}",
            self.name()
        )
    }
}

/// Poorly compressible text: with compressible text the database would store less than intended.
fn incompressible_text(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[usize::try_from(state >> 33).unwrap_or(0) % letters.len()]
    };
    (0..length).map(next).collect()
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn unknown_workload(word: &str) -> BenchError {
    let names: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
    BenchError::Usage(format!("there is no workload {word:?}; there are {} and all", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_list_keeps_order() {
        assert_eq!(Workload::parse_list("hot, many,hot").unwrap(), [Workload::Hot, Workload::Many]);
        assert_eq!(Workload::parse_list("all").unwrap(), Workload::ALL);
        assert_eq!(Workload::parse_list("http,all").unwrap().len(), 10);
    }

    #[test]
    fn unknown_workload_lists_known_ones() {
        for text in ["mny", "", ",", "many,x"] {
            let said = Workload::parse_list(text).unwrap_err().to_string();
            assert!(
                said.contains("many, plain, chain, hot, payload, backlog, history, http, call, task and all"),
                "{said}"
            );
        }
    }

    #[test]
    fn large_payload_is_ten_kibibytes() {
        let payload: serde_json::Value = serde_json::from_str(&Workload::Payload.payload()).unwrap();
        let note = payload["note"].as_str().unwrap();
        assert_eq!(note.len(), 10 * 1024);
        assert_ne!(note[..1000], note[1000..2000]);
    }

    #[test]
    fn chains_are_ten_long() {
        assert_eq!(Workload::Chain.execution_count(1000), 100);
        assert_eq!(Workload::Chain.execution_count(5), 1);
        assert_eq!(Workload::Many.execution_count(0), 1);
    }
}
