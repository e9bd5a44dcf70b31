//! Action specs of a definition: kind, retries, timeouts, and the failure rule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_devices::claim::RunSettingsOverrides;
use millstream_expr::{TextTemplate, ValueTemplate};
use millstream_model::id::Name;
use millstream_model::retry::RetryPolicy;
use millstream_people::assignment::item::ItemOverrides;

/// One action, as declared.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionSpec {
    pub name: Name,
    pub kind: ActionKind,
    /// Actions of the same `do` list that must succeed first.
    pub needs: Vec<Name>,
    pub policy: ActionPolicy,
    /// The action that undoes this one when its transition is compensated.
    pub undo: Option<Name>,
    /// The action that this one undoes.
    pub undoes: Option<Name>,
}

impl ActionSpec {
    /// The actions whose results its expressions may reference.
    pub fn result_sources(&self) -> Vec<Name> {
        self.needs.iter().chain(&self.undoes).cloned().collect()
    }
}

/// What attempts at an action may cost, and what follows them. An internal action of the engine has a policy
/// only: no definition declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPolicy {
    pub retry: RetryPolicy,
    pub timeouts: ActionTimeouts,
    pub on_success: Option<Name>,
    pub failure: FailureRule,
}

/// Rule for a permanent failure of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureRule {
    /// An incident: the execution is paused until an operator resolves it.
    Incident,
    /// The execution receives this event.
    Emit(Name),
    /// The completed actions of the transition are undone in reverse order; then the execution receives
    /// this event.
    Compensate(Name),
}

/// The four timeouts of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionTimeouts {
    /// One attempt.
    pub start_to_close: Duration,
    /// From ready until a worker starts the first attempt.
    pub schedule_to_start: Option<Duration>,
    /// From ready to the outcome, all attempts and backoffs included.
    pub schedule_to_close: Option<Duration>,
    /// Between two heartbeats of one attempt.
    pub heartbeat: Option<Duration>,
}

impl ActionTimeouts {
    /// Default for one attempt by the engine itself.
    pub const ATTEMPT: Duration = Duration::from_secs(30);
    /// Default for one attempt by user code.
    pub const OWN_CODE: Duration = Duration::from_secs(300);

    pub const fn of_attempt(start_to_close: Duration) -> Self {
        Self { start_to_close, schedule_to_start: None, schedule_to_close: None, heartbeat: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ActionKind {
    /// Writes a log line; no external effect.
    Log {
        text: TextTemplate,
    },
    Http(HttpSpec),
    /// A function of a user's worker.
    Call {
        function: Name,
        input: ValueTemplate,
    },
    /// Work for an external worker, leased over HTTP.
    Task(TaskSpec),
    /// Work for devices, which own it exclusively while they work on it.
    Device(DeviceSpec),
    /// Work for people: an item of a queue.
    TaskFor(TaskForSpec),
    /// An event for another execution.
    Emit(EmitSpec),
    /// A child execution; its outcome is the outcome of this action.
    Start(StartSpec),
    /// Succeeds at the given time.
    Wait(WaitSpec),
    /// A signed webhook.
    Webhook(WebhookSpec),
    /// No effect, but takes the whole lease–perform–settle path; its value is its result.
    Noop {
        value: ValueTemplate,
    },
}

impl ActionKind {
    /// The keyword in definitions and in stored inputs.
    pub const fn kind_name(&self) -> &'static str {
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
    pub method: HttpMethod,
    pub url: TextTemplate,
    /// Names in lower case.
    pub headers: BTreeMap<String, TextTemplate>,
    /// No body is sent if it is absent or renders to null.
    pub body: Option<ValueTemplate>,
    /// Status codes that count as success. Empty: 2xx.
    pub expect: Vec<StatusPattern>,
    /// Maps the response to the result, over `response`.
    pub result: Option<ValueTemplate>,
    /// A longer response is a failure. Never above the worker's own limit.
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
    pub const fn matches_status(self, status: u16) -> bool {
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
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not a status"))
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
    pub input: ValueTemplate,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// The run kind, which selects the run settings.
    pub kind: Name,
    /// Capabilities that a device must have.
    pub requires: BTreeSet<Name>,
    /// Capabilities that are preferred.
    pub prefer: BTreeSet<Name>,
    pub input: ValueTemplate,
    pub priority: i32,
    /// Whether it may preempt work of lower priority.
    pub preempt: bool,
    /// Number of devices that work on it in parallel.
    pub devices: u16,
    /// Whether the elected coordinator is offered the run first.
    pub coordinator: bool,
    /// Minimum battery charge in percent.
    pub min_battery: Option<u8>,
    pub settings: RunSettingsOverrides,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskForSpec {
    pub queue: Name,
    /// The payload that people see.
    pub payload: ValueTemplate,
    /// Overrides of the queue's defaults.
    pub own: ItemOverrides,
    /// Deadline for the whole item, relative to its creation.
    pub due: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EmitSpec {
    pub to: EmitTarget,
    pub event: Name,
    pub payload: ValueTemplate,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EmitTarget {
    Execution(TextTemplate),
    Correlation(TextTemplate),
}

#[derive(Debug, Clone, PartialEq)]
pub struct StartSpec {
    pub definition: Name,
    /// The latest when absent.
    pub version: Option<i32>,
    /// Derived from the action's key when absent.
    pub execution_id: Option<TextTemplate>,
    pub input: ValueTemplate,
    pub parent_close: ParentClose,
}

/// What happens to a child when its parent ends first.
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
    /// An expression that evaluates to a time.
    Until(String),
    For(Duration),
}

#[derive(Debug, Clone, PartialEq)]
pub struct WebhookSpec {
    pub url: TextTemplate,
    /// Event type for the receiver, such as `order.paid`.
    pub event_type: TextTemplate,
    pub data: ValueTemplate,
    /// Name of the secret that signs the webhook.
    pub secret: Name,
}

/// HTTP methods that an action may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl HttpMethod {
    pub const ALL: &'static [HttpMethod] = &[
        HttpMethod::Get,
        HttpMethod::Head,
        HttpMethod::Post,
        HttpMethod::Put,
        HttpMethod::Patch,
        HttpMethod::Delete,
    ];

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
