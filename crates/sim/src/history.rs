//! History of a run: everything that was posted and answered, and everything that the store knows.
//!
//! Plain data: checks are pure functions, and a history from another source can be checked as well.

use std::collections::BTreeMap;

use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_workflow::graph::NodeStatus;

#[derive(Debug, Clone, Default)]
pub struct SimHistory {
    /// A run has one history per tenant.
    pub tenant: String,
    /// By client, in posting order.
    pub posts: Vec<SimPost>,
    pub executions: Vec<SimExecution>,
    /// In order of arrival.
    pub sink: Vec<SinkCall>,
    pub left: SimLeftovers,
    /// End of the last fault, in milliseconds of the store's time.
    pub calm_at: i64,
}

/// One event that a client wanted to submit, however often it was sent.
#[derive(Debug, Clone)]
pub struct SimPost {
    pub client: usize,
    pub execution: String,
    pub name: String,
    /// Unique; part of the payload, and the idempotency key where there is one.
    pub marker: String,
    pub answer: SimAnswer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimAnswer {
    Started,
    Acknowledged {
        event: String,
    },
    Refused {
        status: u16,
    },
    /// No answer: it may be durable or not.
    Unknown,
}

#[derive(Debug, Clone)]
pub struct SimExecution {
    pub id: String,
    pub status: ExecutionStatus,
    pub state: String,
    pub context: BTreeMap<String, String>,
    /// The key of the action that began it.
    pub parent: Option<String>,
    pub log: Vec<SimTransition>,
    pub events: Vec<SimEvent>,
    pub actions: Vec<SimAction>,
    /// Of a graph.
    pub nodes: Vec<SimNode>,
    /// Armed and not fired: when they are due, in milliseconds.
    pub timers: Vec<i64>,
    /// Differences between the replayed log and the stored state.
    pub mismatches: Vec<String>,
}

/// A transition.
#[derive(Debug, Clone)]
pub struct SimTransition {
    pub seq: i64,
    pub event: String,
    pub name: String,
    /// Whether it entered a state.
    pub entered: bool,
    pub ended: bool,
    /// Of a timer's event: the entry that armed it.
    pub armed_by: Option<i64>,
    /// When its event was accepted.
    pub accepted_at: i64,
    pub arms: Vec<SimTimer>,
}

#[derive(Debug, Clone)]
pub struct SimTimer {
    pub send: String,
    pub fire_at: i64,
}

#[derive(Debug, Clone)]
pub struct SimEvent {
    pub id: String,
    pub name: String,
    pub accept_no: i64,
    pub accepted_at: i64,
    /// When it was applied or rejected, or died.
    pub decided_at: Option<i64>,
    pub status: EventStatus,
    pub seq: Option<i64>,
    /// Number of interrupted decisions.
    pub attempts: i32,
    pub marker: Option<String>,
    /// Of an outcome event: the key of its action.
    pub about: Option<String>,
    /// Of an attempt at a node: the node, and what it came to.
    pub outcome: Option<(String, NodeStatus)>,
    pub actor: Option<String>,
    pub error: Option<String>,
}

/// Effect of an action, as far as checks use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimWork {
    /// Something at the sink.
    Effect,
    /// A child execution.
    Child,
    /// An attempt at a node that did not pass, whatever it did.
    Attempt,
    /// Notifications that the engine sends at the end of an execution.
    Owed,
}

#[derive(Debug, Clone)]
pub struct SimAction {
    pub key: String,
    /// Of the transition that asked for it.
    pub seq: i64,
    /// Of a graph: the node that it performs.
    pub node: Option<String>,
    pub work: SimWork,
    pub status: ActionStatus,
    pub epoch: i64,
    /// The token under which its recorded result was made, as the sink echoed it.
    pub token: Option<i64>,
    /// Its success event, where the definition names one.
    pub on_success: Option<String>,
    pub on_failure: Option<String>,
}

/// The present state of a graph's node.
#[derive(Debug, Clone)]
pub struct SimNode {
    pub id: String,
    pub status: NodeStatus,
    pub parents: Vec<String>,
}

/// A request as it arrived at the sink.
#[derive(Debug, Clone)]
pub struct SinkCall {
    pub key: String,
    pub token: i64,
    pub effect: bool,
    /// For its token.
    pub refused: bool,
}

/// Unfinished work; empty once everything is quiet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimLeftovers {
    /// Executions with events that could be decided.
    pub undecided: Vec<String>,
    pub open_actions: u64,
    /// Doorbells in the stream, read or unread.
    pub bells: u64,
    pub locks: usize,
    /// Clients that still wait for an answer.
    pub clients: usize,
    /// Incidents that a person could resolve.
    pub incidents: usize,
}

impl SimHistory {
    pub fn execution(&self, id: &str) -> Option<&SimExecution> {
        self.executions.iter().find(|execution| execution.id == id)
    }
}

impl SimExecution {
    pub fn event(&self, id: &str) -> Option<&SimEvent> {
        self.events.iter().find(|event| event.id == id)
    }
}
