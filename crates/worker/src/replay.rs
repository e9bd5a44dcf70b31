//! Rebuilds an execution from its log, and compares it with the stored rows.
//!
//! Replay folds `evolve` over the log and evaluates nothing, so it gives the same state in every build.
//! `redecide_execution` does evaluate: it decides every recorded event again with this build and reports each
//! difference from the log. Both only read.

use std::sync::Arc;

use millstream_model::document::SourceFormat;
use millstream_model::id::{ExecutionKey, Seq};
use millstream_rpc::blob;
use millstream_store::execution_store::{LoadRequest, LoadVerdict, MailboxLimits, PageRemainder};
use millstream_store::{StoreError, Stores};
use millstream_workflow::graph::Graph;
use millstream_workflow::log::ExecutionState;
use millstream_workflow::machine::{self, DecisionDifference, Machine, RecordedTransition};
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::{definition_parser, graph_machine};

/// History is read in pages of this many transitions.
const PAGE: usize = 500;

/// Reasons why no comparison is possible.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no execution {0}")]
    NotFound(ExecutionKey),
    #[error("the log of {0} ends before seq {1}")]
    BeyondTheEnd(ExecutionKey, Seq),
    #[error("the definition of {0} cannot be used: {1}")]
    Definition(ExecutionKey, String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayUntil {
    /// To the end, and compare with the snapshot.
    End,
    /// The state after this seq.
    Seq(Seq),
}

/// An execution rebuilt from its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedExecution {
    /// The folded state, up to the requested position.
    pub state: ExecutionState,
    pub transitions: u64,
    /// Differences between the store and the log; empty for a consistent store.
    pub mismatches: Vec<ReplayMismatch>,
}

/// One difference between the log and the other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayMismatch {
    pub seq: Seq,
    /// For example `context.paid` or `state`.
    pub what: String,
    pub log: String,
    pub stored: String,
}

/// Folds the log in pages and compares at the end.
pub async fn replay_execution(
    stores: &Stores,
    execution: &ExecutionKey,
    until: ReplayUntil,
) -> Result<ReplayedExecution, ReplayError> {
    // Read before the log: a transition committed in between is in the log and not expected.
    let stored = load_stored(stores, execution).await?;
    let stop_at = match until {
        ReplayUntil::End => stored.seq,
        ReplayUntil::Seq(seq) => seq,
    };
    let mut fold: Option<ExecutionState> = None;
    let mut mismatches = stored.mismatches;
    let mut snapshot = stored.snapshot;
    let mut transitions = 0;
    'pages: loop {
        let after = fold.as_ref().map_or(Seq(0), |state| state.seq);
        let page = stores.execution_views.read_history(execution, after, PAGE).await?;
        let full = page.more == PageRemainder::Remains;
        for entry in page.entries {
            let seq = entry.transition.seq;
            if seq > stop_at {
                break 'pages;
            }
            let expected = fold.as_ref().map_or(Seq::FIRST, |state| state.seq.next());
            if seq != expected {
                mismatches.push(ReplayMismatch::new(
                    seq,
                    "log",
                    format!("seq {seq} follows"),
                    format!("seq {expected} is missing"),
                ));
            }
            let state = machine::evolve(fold.take(), &entry.transition);
            transitions += 1;
            if let Some(stored) = snapshot.take_if(|stored| stored.seq == state.seq) {
                mismatches.extend(compare_states(&state, &stored));
            }
            fold = Some(state);
        }
        if !full {
            break;
        }
    }
    let state = fold.ok_or_else(|| ReplayError::BeyondTheEnd(execution.clone(), stop_at))?;
    match until {
        ReplayUntil::Seq(seq) if state.seq != seq => {
            return Err(ReplayError::BeyondTheEnd(execution.clone(), seq));
        }
        ReplayUntil::Seq(_) => mismatches.clear(),
        ReplayUntil::End => {
            if state.seq != stored.seq {
                let (log, row) = (state.seq.to_string(), stored.seq.to_string());
                mismatches.push(ReplayMismatch::new(state.seq, "seq", log, row));
            }
            if let Some(never_met) = snapshot {
                let (log, row) = (state.seq.to_string(), never_met.seq.to_string());
                mismatches.push(ReplayMismatch::new(never_met.seq, "snapshot seq", log, row));
            }
        }
    }
    Ok(ReplayedExecution { state, transitions, mismatches })
}

/// Decides every recorded event again.
pub async fn redecide_execution(
    stores: &Stores,
    execution: &ExecutionKey,
) -> Result<Vec<DecisionDifference>, ReplayError> {
    let Some(definition) =
        stores.events.find_definitions(std::slice::from_ref(execution)).await?.pop().flatten()
    else {
        return Err(ReplayError::NotFound(execution.clone()));
    };
    let history = load_history(stores, execution).await?;
    if ExecutionProgram::built_in(&definition).is_some() {
        return Ok(graph_machine::redecide_graph(&history));
    }
    let unusable = |why: String| ReplayError::Definition(execution.clone(), why);
    let stored = stores
        .definitions
        .get_definition(&execution.tenant, &definition.name, Some(definition.version))
        .await?
        .ok_or_else(|| unusable(format!("{definition} is gone")))?;
    let machine: Arc<Machine> = definition_parser::parse(&stored.source, SourceFormat::Json)
        .and_then(Machine::compile)
        .map(Arc::new)
        .map_err(|problems| unusable(problems.to_string()))?;
    Ok(machine::redecide_history(&machine, &history))
}

async fn load_history(
    stores: &Stores,
    execution: &ExecutionKey,
) -> Result<Vec<RecordedTransition>, ReplayError> {
    let mut history: Vec<RecordedTransition> = Vec::new();
    loop {
        let after = history.last().map_or(Seq(0), |recorded| recorded.transition.seq);
        let page = stores.execution_views.read_history(execution, after, PAGE).await?;
        let full = page.more == PageRemainder::Remains;
        history.extend(page.entries.into_iter().map(|entry| RecordedTransition {
            transition: entry.transition,
            payload: entry.payload,
            accepted_at: entry.accepted_at,
        }));
        if !full {
            return Ok(history);
        }
    }
}

struct StoredSnapshot {
    seq: Seq,
    snapshot: Option<ExecutionState>,
    mismatches: Vec<ReplayMismatch>,
}

async fn load_stored(stores: &Stores, execution: &ExecutionKey) -> Result<StoredSnapshot, ReplayError> {
    let wanted = [LoadRequest { execution: execution.clone(), known: None }];
    let limits = MailboxLimits { events: 1, bytes: 1 };
    match stores.executions.load_executions(&wanted, limits).await?.pop() {
        Some(LoadVerdict::Found(found)) => {
            let mut mismatches = Vec::new();
            let mut snapshot = found.state.map(|(snapshot, _)| snapshot);
            if let (Some(snapshot), Some(stored)) = (&mut snapshot, found.graph) {
                match blob::decode(&stored) {
                    Ok(graph) => snapshot.graph = Some(Arc::new(graph)),
                    Err(error) => {
                        let readable = "readable".to_owned();
                        mismatches.push(ReplayMismatch::new(
                            snapshot.seq,
                            "graph",
                            readable,
                            error.to_string(),
                        ));
                    }
                }
            }
            Ok(StoredSnapshot { seq: found.seq, snapshot, mismatches })
        }
        Some(LoadVerdict::Corrupt { reason }) => {
            // The log may still be good: fold all of it and report the unreadable snapshot.
            let unreadable = ReplayMismatch::new(Seq(0), "snapshot", "readable".to_owned(), reason);
            Ok(StoredSnapshot { seq: Seq(i64::MAX), snapshot: None, mismatches: vec![unreadable] })
        }
        Some(LoadVerdict::Missing) | None => Err(ReplayError::NotFound(execution.clone())),
    }
}

impl ReplayMismatch {
    fn new(seq: Seq, what: &str, log: String, stored: String) -> Self {
        Self { seq, what: what.to_owned(), log, stored }
    }
}

/// Node by node.
fn compare_graphs(log: Option<&Graph>, stored: Option<&Graph>) -> Vec<(String, String, String)> {
    let (Some(log), Some(stored)) = (log, stored) else {
        let there = |graph: Option<&Graph>| if graph.is_some() { "there" } else { "absent" }.to_owned();
        return vec![("graph".to_owned(), there(log), there(stored))];
    };
    let text = |graph: &Graph, id| {
        graph.nodes.get(id).map_or_else(|| "absent".to_owned(), |node| format!("{node:?}"))
    };
    let ids: std::collections::BTreeSet<_> = log.nodes.keys().chain(stored.nodes.keys()).collect();
    let nodes = ids.into_iter().map(|id| (format!("nodes.{id}"), text(log, id), text(stored, id)));
    let revision = ("revision".to_owned(), log.revision.to_string(), stored.revision.to_string());
    std::iter::once(revision).chain(nodes).collect()
}

/// Field by field, so that a report names each difference.
fn compare_states(log: &ExecutionState, stored: &ExecutionState) -> Vec<ReplayMismatch> {
    let absent = || "absent".to_owned();
    let text =
        |value: Option<&millstream_model::raw::RawJson>| value.map_or_else(absent, ToString::to_string);
    let mut rows = vec![
        ("state".to_owned(), log.state.to_string(), stored.state.to_string()),
        ("entered_seq".to_owned(), log.entered_seq.to_string(), stored.entered_seq.to_string()),
        ("phase".to_owned(), log.phase.to_string(), stored.phase.to_string()),
        (
            "reason".to_owned(),
            log.reason.clone().unwrap_or_else(absent),
            stored.reason.clone().unwrap_or_else(absent),
        ),
        ("at".to_owned(), log.at.to_string(), stored.at.to_string()),
    ];
    let keys: std::collections::BTreeSet<&String> = log.context.keys().chain(stored.context.keys()).collect();
    rows.extend(
        keys.into_iter()
            .map(|key| (format!("context.{key}"), text(log.context.get(key)), text(stored.context.get(key)))),
    );
    rows.extend(compare_graphs(log.graph.as_deref(), stored.graph.as_deref()));
    rows.into_iter()
        .filter(|(_, log, stored)| log != stored)
        .map(|(what, log_says, stored)| ReplayMismatch { seq: log.seq, what, log: log_says, stored })
        .collect()
}
