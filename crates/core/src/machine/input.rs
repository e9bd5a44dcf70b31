//! The rendered input of an action, as stored and as performed by the worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assignment::item::{NewItem, Own, Waiter};
use crate::claim::{Overrides, RunSpec, Settings, WaitingAction};
use crate::definition::{Method, ParentClose, StatusPattern};
use crate::duration;
use crate::graph::NodeInput;
use crate::id::{ItemId, Name, Seq};
use crate::raw::RawJson;
use crate::sealed::{Holes, Phrase};
use crate::status::Phase;
use crate::time::Timestamp;

/// Externally tagged: `{"http": {…}}`, `{"log": "text"}`, `{"noop": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionInput {
    Http(HttpInput),
    Log(String),
    Call(CallInput),
    Task(TaskInput),
    Device(DeviceInput),
    TaskFor(TaskForInput),
    Emit(EmitInput),
    Start(StartInput),
    Wait(WaitInput),
    Webhook(WebhookInput),
    /// The value is the action's result.
    Noop(RawJson),
    /// An attempt at a node of a graph.
    Node(NodeInput),
    /// Internal: a child reports its outcome to its parent.
    Return(ReturnInput),
    /// Internal: a parent that has ended closes its children.
    CloseChildren,
}

impl ActionInput {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Log(_) => "log",
            Self::Call(_) => "call",
            Self::Task(_) => "task",
            Self::Device(_) => "device",
            Self::TaskFor(_) => "task_for",
            Self::Emit(_) => "emit",
            Self::Start(_) => "start",
            Self::Wait(_) => "wait",
            Self::Webhook(_) => "webhook",
            Self::Noop(_) => "noop",
            Self::Node(_) => "node",
            Self::Return(_) => "return",
            Self::CloseChildren => "close_children",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpInput {
    pub method: Method,
    pub url: Phrase,
    /// Names in lower case, values without control characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Phrase>,
    /// `None`: no body is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Holes::is_empty")]
    pub body_secrets: Holes,
    /// Status codes that count as success; empty: 2xx.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<StatusPattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallInput {
    pub function: Name,
    pub input: RawJson,
    #[serde(default, skip_serializing_if = "Holes::is_empty")]
    pub secrets: Holes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInput {
    #[serde(rename = "type")]
    pub kind: Name,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Name>,
    pub input: RawJson,
}

/// The input of a `device` action: the fields of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInput {
    pub kind: Name,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<Name>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prefer: BTreeSet<Name>,
    pub input: RawJson,
    pub priority: i32,
    pub devices: u16,
    #[serde(default)]
    pub preempt: bool,
    #[serde(default)]
    pub coordinator: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_battery: Option<u8>,
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub settings: Overrides,
}

impl DeviceInput {
    /// The run to create. `settings` are those of its kind.
    pub fn run(&self, settings: &Settings, waiting: WaitingAction) -> RunSpec {
        RunSpec {
            requires: self.requires.clone(),
            prefer: self.prefer.clone(),
            priority: self.priority,
            preempt: self.preempt,
            prefer_coordinator: self.coordinator,
            min_battery: self.min_battery,
            devices: self.devices,
            settings: self.settings.over(settings),
            waiting: Some(waiting),
            ..RunSpec::of(self.kind.clone(), self.input.clone())
        }
    }
}

/// The input of a `task_for` action: the fields of its item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskForInput {
    pub queue: Name,
    pub payload: RawJson,
    #[serde(flatten)]
    pub own: Own,
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub due: Option<Duration>,
}

impl TaskForInput {
    /// The item to import.
    pub fn item(&self, id: ItemId, waiter: Waiter, now: Timestamp) -> NewItem {
        NewItem {
            id,
            payload: self.payload.clone(),
            own: self.own.clone(),
            due_at: self.due.map(|due| now.plus(due)),
            waiter: Some(waiter),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmitInput {
    #[serde(flatten)]
    pub to: EmitTo,
    pub event: Name,
    pub payload: RawJson,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmitTo {
    #[serde(rename = "to")]
    Execution(String),
    Correlation(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartInput {
    pub definition: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    pub input: RawJson,
    pub parent_close: ParentClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitInput {
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookInput {
    pub url: Phrase,
    #[serde(rename = "type")]
    pub event_type: String,
    pub data: RawJson,
    #[serde(default, skip_serializing_if = "Holes::is_empty")]
    pub data_secrets: Holes,
    /// Name of the secret that signs the webhook.
    pub secret: Name,
    /// Time of the transition, sent as the timestamp of the message.
    pub at: Timestamp,
}

/// The outcome of a child execution, for the action of its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnInput {
    pub parent: crate::id::ExecutionId,
    pub seq: Seq,
    pub action: Name,
    pub phase: Phase,
    pub state: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub context: RawJson,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_it_was_written() {
        let request = HttpInput {
            method: Method::Post,
            url: Phrase::Plain("http://127.0.0.1/x".to_owned()),
            headers: BTreeMap::from([("x-a".to_owned(), Phrase::Plain("1".to_owned()))]),
            body: Some(RawJson::parse(r#"{"b":1.50}"#).unwrap()),
            body_secrets: Holes::new(),
            expect: vec![StatusPattern::Class(2), StatusPattern::Exactly(404)],
            max_response: None,
        };
        let name = |word: &str| Name::parse(word).unwrap();
        let at = Timestamp::from_millis(1);
        let inputs = [
            ActionInput::Http(request.clone()),
            ActionInput::Http(HttpInput { body: None, headers: BTreeMap::new(), ..request }),
            ActionInput::Log("hello".to_owned()),
            ActionInput::Noop(RawJson::null()),
            ActionInput::Call(CallInput {
                function: name("f"),
                input: RawJson::null(),
                secrets: Holes::from([("/a".to_owned(), name("k"))]),
            }),
            ActionInput::Task(TaskInput {
                kind: name("t"),
                labels: BTreeSet::from([name("gpu")]),
                input: RawJson::null(),
            }),
            ActionInput::Device(DeviceInput {
                kind: name("render"),
                requires: BTreeSet::from([name("gpu")]),
                prefer: BTreeSet::new(),
                input: RawJson::null(),
                priority: -1,
                devices: 2,
                preempt: true,
                coordinator: false,
                min_battery: Some(20),
                settings: Overrides { max_reassignments: Some(3), ..Overrides::default() },
            }),
            ActionInput::TaskFor(TaskForInput {
                queue: name("review"),
                payload: RawJson::null(),
                own: Own { priority: Some(-1), skills: BTreeSet::from([name("french")]), overlap: Some(2) },
                due: Some(Duration::from_secs(90)),
            }),
            ActionInput::TaskFor(TaskForInput {
                queue: name("review"),
                payload: RawJson::null(),
                own: Own::default(),
                due: None,
            }),
            ActionInput::Emit(EmitInput {
                to: EmitTo::Correlation("o-1".to_owned()),
                event: name("e"),
                payload: RawJson::null(),
            }),
            ActionInput::Wait(WaitInput { until: at }),
            ActionInput::CloseChildren,
        ];
        for input in inputs {
            assert_eq!(RawJson::of(&input).decode::<ActionInput>().unwrap(), input);
        }
    }

    #[test]
    fn the_stored_shape_is_fixed() {
        assert_eq!(RawJson::of(&ActionInput::Log("hi".to_owned())).as_str(), r#"{"log":"hi"}"#);
        assert_eq!(RawJson::of(&ActionInput::Noop(RawJson::null())).as_str(), r#"{"noop":null}"#);
        let http = r#"{"http":{"method":"GET","url":"http://x/"}}"#;
        let read: ActionInput = RawJson::parse(http).unwrap().decode().unwrap();
        assert_eq!(RawJson::of(&read).as_str(), http);
    }
}
