//! Actions as declared: what to do, how patiently, and what follows when it cannot be done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::template::{Template, Text};
use crate::assignment::item::Own;
use crate::claim::Overrides;
use crate::id::Name;
use crate::retry::RetryPolicy;

/// One action, as declared.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionSpec {
    pub name: Name,
    pub kind: ActionKind,
    /// Actions of the same `do` list that must succeed first.
    pub needs: Vec<Name>,
    pub retry: RetryPolicy,
    pub timeouts: Timeouts,
    pub on_success: Option<Name>,
    pub failure: FailureRule,
    /// The action that takes this one back when its transition is compensated.
    pub undo: Option<Name>,
    /// The action that this one takes back.
    pub undoes: Option<Name>,
}

impl ActionSpec {
    /// The actions whose results its expressions may mention.
    pub fn sources(&self) -> Vec<Name> {
        self.needs.iter().chain(&self.undoes).cloned().collect()
    }
}

/// What follows when an action has failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureRule {
    /// An incident: the execution is paused until a person decides.
    Incident,
    /// The execution is told by this event.
    Emit(Name),
    /// What the transition has completed is undone, in reverse order; then the execution is told by
    /// this event.
    Compensate(Name),
}

/// The four limits on how long an action may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt.
    pub start_to_close: Duration,
    /// From when it may begin until somebody begins.
    pub schedule_to_start: Option<Duration>,
    /// From when it may begin to its outcome, all attempts and waits together.
    pub schedule_to_close: Option<Duration>,
    /// Between two signs of life of one attempt.
    pub heartbeat: Option<Duration>,
}

impl Timeouts {
    /// Of one attempt by the engine itself.
    pub const ATTEMPT: Duration = Duration::from_secs(30);
    /// Of one attempt by somebody's own code.
    pub const OWN_CODE: Duration = Duration::from_secs(300);

    pub const fn of_attempt(start_to_close: Duration) -> Self {
        Self { start_to_close, schedule_to_start: None, schedule_to_close: None, heartbeat: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ActionKind {
    /// Writes a line; no outside effect.
    Log {
        text: Text,
    },
    Http(HttpSpec),
    /// A function of a user's own worker.
    Call {
        function: Name,
        input: Template,
    },
    /// Work for an external worker, leased over HTTP.
    Task(TaskSpec),
    /// Work for devices, each of which has it for itself.
    Device(DeviceSpec),
    /// Work for people: an item of a queue.
    TaskFor(TaskForSpec),
    /// An event for another execution.
    Emit(EmitSpec),
    /// A child execution; its end is this action's outcome.
    Start(StartSpec),
    /// Succeeds at a time.
    Wait(WaitSpec),
    /// A signed notification.
    Webhook(WebhookSpec),
    /// Does nothing, by the whole lease–perform–settle path; its value is its result.
    Noop {
        value: Template,
    },
}

impl ActionKind {
    /// As in definitions, and in stored inputs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Log { .. } => "log",
            Self::Http(_) => "http",
            Self::Call { .. } => "call",
            Self::Task(_) => "task",
            Self::Device(_) => "device",
            Self::TaskFor(_) => "task_for",
            Self::Emit(_) => "emit",
            Self::Start(_) => "start",
            Self::Wait(_) => "wait",
            Self::Webhook(_) => "webhook",
            Self::Noop { .. } => "noop",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HttpSpec {
    pub method: Method,
    pub url: Text,
    /// Names in lower case.
    pub headers: BTreeMap<String, Text>,
    /// Absent, or null when rendered: no body is sent.
    pub body: Option<Template>,
    /// Which statuses succeed. None: 2xx.
    pub expect: Vec<StatusPattern>,
    /// What of the answer becomes the result, over `response`.
    pub result: Option<Template>,
    /// A longer answer is a failure. Never above the worker's own limit.
    pub max_response: Option<usize>,
}

/// `404`, or `2xx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StatusPattern {
    Exactly(u16),
    /// The first digit.
    Class(u16),
}

impl StatusPattern {
    pub const fn covers(self, status: u16) -> bool {
        match self {
            Self::Exactly(exact) => exact == status,
            Self::Class(first) => status / 100 == first,
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        if let Some(first) = text.strip_suffix("xx") {
            return first.parse().ok().filter(|class| (1..=5).contains(class)).map(Self::Class);
        }
        text.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Exactly)
    }
}

impl std::fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(status) => write!(f, "{status}"),
            Self::Class(first) => write!(f, "{first}xx"),
        }
    }
}

impl TryFrom<String> for StatusPattern {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no status"))
    }
}

impl From<StatusPattern> for String {
    fn from(pattern: StatusPattern) -> String {
        pattern.to_string()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpec {
    pub kind: Name,
    /// A worker must have all of these.
    pub labels: BTreeSet<Name>,
    pub input: Template,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// The type of run: settings are given per kind.
    pub kind: Name,
    /// What a device must be able to do.
    pub requires: BTreeSet<Name>,
    /// What it had better be able to do.
    pub prefer: BTreeSet<Name>,
    pub input: Template,
    pub priority: i32,
    /// Whether it may take a device from work of lower priority.
    pub preempt: bool,
    /// How many devices work on it in parallel.
    pub devices: u16,
    /// Whether the elected coordinator is asked first.
    pub coordinator: bool,
    /// Percent.
    pub min_battery: Option<u8>,
    pub settings: Overrides,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskForSpec {
    pub queue: Name,
    /// What people are shown.
    pub payload: Template,
    /// What is not given is the queue's.
    pub own: Own,
    /// How long the people have, all together.
    pub due: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EmitSpec {
    pub to: EmitTarget,
    pub event: Name,
    pub payload: Template,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EmitTarget {
    Execution(Text),
    Correlation(Text),
}

#[derive(Debug, Clone, PartialEq)]
pub struct StartSpec {
    pub definition: Name,
    /// The latest when absent.
    pub version: Option<i32>,
    /// Made from the action's key when absent.
    pub execution_id: Option<Text>,
    pub input: Template,
    pub parent_close: ParentClose,
}

/// What becomes of a child when its parent ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClose {
    Cancel,
    Abandon,
}

impl ParentClose {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Abandon => "abandon",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "cancel" => Some(Self::Cancel),
            "abandon" => Some(Self::Abandon),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WaitSpec {
    /// An expression that gives a time.
    Until(String),
    For(Duration),
}

#[derive(Debug, Clone, PartialEq)]
pub struct WebhookSpec {
    pub url: Text,
    /// What happened, as the receiver knows it: `order.paid`.
    pub event_type: Text,
    pub data: Template,
    /// The name of the secret that signs it.
    pub secret: Name,
}

/// The methods that an action may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const ALL: &'static [Method] =
        &[Method::Get, Method::Head, Method::Post, Method::Put, Method::Patch, Method::Delete];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.as_str() == word)
    }
}
