//! The rendered input of an action, as stored and as performed by the worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_devices::claim::{RunSettings, RunSettingsOverrides, RunSpec, WaitingAction};
use millstream_model::duration;
use millstream_model::id::{ItemId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::secrets::{SealedText, SecretHoles};
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;
use millstream_people::assignment::item::{ItemOverrides, ItemWaiter, NewQueueItem};
use serde::{Deserialize, Serialize};

use crate::definition::{HttpMethod, ParentClose, StatusPattern};
use crate::graph::NodeInput;

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
    pub method: HttpMethod,
    pub url: SealedText,
    /// Names in lower case, values without control characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SealedText>,
    /// `None`: no body is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RawJson>,
    #[serde(default, skip_serializing_if = "SecretHoles::is_empty")]
    pub body_secrets: SecretHoles,
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
    #[serde(default, skip_serializing_if = "SecretHoles::is_empty")]
    pub secrets: SecretHoles,
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
    #[serde(default, skip_serializing_if = "RunSettingsOverrides::is_empty")]
    pub settings: RunSettingsOverrides,
}

impl DeviceInput {
    /// The run to create. `settings` are those of its kind.
    pub fn to_run_spec(&self, settings: &RunSettings, waiting: WaitingAction) -> RunSpec {
        RunSpec {
            requires: self.requires.clone(),
            prefer: self.prefer.clone(),
            priority: self.priority,
            preempt: self.preempt,
            prefer_coordinator: self.coordinator,
            min_battery: self.min_battery,
            devices: self.devices,
            settings: self.settings.apply_to(settings),
            waiting: Some(waiting),
            ..RunSpec::with_defaults(self.kind.clone(), self.input.clone())
        }
    }
}

/// The input of a `task_for` action: the fields of its item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskForInput {
    pub queue: Name,
    pub payload: RawJson,
    #[serde(flatten)]
    pub own: ItemOverrides,
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub due: Option<Duration>,
}

impl TaskForInput {
    /// The item to import.
    pub fn to_new_item(&self, id: ItemId, waiter: ItemWaiter, now: Timestamp) -> NewQueueItem {
        NewQueueItem {
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
    pub url: SealedText,
    #[serde(rename = "type")]
    pub event_type: String,
    pub data: RawJson,
    #[serde(default, skip_serializing_if = "SecretHoles::is_empty")]
    pub data_secrets: SecretHoles,
    /// Name of the secret that signs the webhook.
    pub secret: Name,
    /// Time of the transition, sent as the timestamp of the message.
    pub at: Timestamp,
}

/// The outcome of a child execution, for the action of its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnInput {
    pub parent: millstream_model::id::ExecutionId,
    pub seq: Seq,
    pub action: Name,
    pub phase: ExecutionPhase,
    pub state: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub context: RawJson,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_input_survives_storage() {
        let request = HttpInput {
            method: HttpMethod::Post,
            url: SealedText::Plain("http://127.0.0.1/x".to_owned()),
            headers: BTreeMap::from([("x-a".to_owned(), SealedText::Plain("1".to_owned()))]),
            body: Some(RawJson::parse(r#"{"b":1.50}"#).unwrap()),
            body_secrets: SecretHoles::new(),
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
                secrets: SecretHoles::from([("/a".to_owned(), name("k"))]),
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
                settings: RunSettingsOverrides {
                    max_reassignments: Some(3),
                    ..RunSettingsOverrides::default()
                },
            }),
            ActionInput::TaskFor(TaskForInput {
                queue: name("review"),
                payload: RawJson::null(),
                own: ItemOverrides {
                    priority: Some(-1),
                    skills: BTreeSet::from([name("french")]),
                    overlap: Some(2),
                },
                due: Some(Duration::from_secs(90)),
            }),
            ActionInput::TaskFor(TaskForInput {
                queue: name("review"),
                payload: RawJson::null(),
                own: ItemOverrides::default(),
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
            assert_eq!(RawJson::from_value(&input).decode::<ActionInput>().unwrap(), input);
        }
    }

    #[test]
    fn action_input_json_is_fixed() {
        assert_eq!(RawJson::from_value(&ActionInput::Log("hi".to_owned())).as_str(), r#"{"log":"hi"}"#);
        assert_eq!(RawJson::from_value(&ActionInput::Noop(RawJson::null())).as_str(), r#"{"noop":null}"#);
        let http = r#"{"http":{"method":"GET","url":"http://x/"}}"#;
        let read: ActionInput = RawJson::parse(http).unwrap().decode().unwrap();
        assert_eq!(RawJson::from_value(&read).as_str(), http);
    }
}
