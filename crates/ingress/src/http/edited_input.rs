//! The input of an action after an edit by a person: validated strictly before the next attempts use it.
//!
//! Inputs that the engine rendered are trusted; an edited input is read to the last field, because a
//! misspelt field would be dropped silently. Kind and queue are fixed: planning decided which performer
//! runs the action.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_model::id::Name;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_workflow::machine::ActionInput;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::fields::clip_text;

/// The new input as it is stored, or its faults; paths begin at `input`.
pub(crate) fn read_edited_input(
    kind: &str,
    queue: &ActionQueue,
    text: &RawJson,
) -> Result<RawJson, Vec<Fault>> {
    check_kind(kind, text)?;
    let mut reader = serde_json::Deserializer::from_str(text.as_str());
    let input: ActionInput = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { format!(".{path}") };
        vec![Fault::new(format!("input{path}"), without_place(&error.into_inner()))]
    })?;
    let mut faults = queue_changes(queue, &input);
    let kept = RawJson::from_value(&input);
    if let (Ok(written), Ok(read)) = (text.decode(), kept.decode()) {
        unread_fields("input", &written, &read, &mut faults);
    }
    if faults.is_empty() { Ok(kept) } else { Err(faults) }
}

/// Checks that the input has one field, named after the kind.
fn check_kind(kind: &str, text: &RawJson) -> Result<(), Vec<Fault>> {
    let wrong = |message: String| Err(vec![Fault::new("input", message)]);
    match kind {
        "return" | "close_children" => {
            return wrong(format!("{kind} is the engine's own action; its input cannot be edited"));
        }
        _ => {}
    }
    let Ok(object) = text.decode::<BTreeMap<String, &RawValue>>() else {
        return wrong(format!("must be an object with the one field {kind:?}, like the stored input"));
    };
    let names: Vec<&str> = object.keys().map(|name| clip_text(name)).take(5).collect();
    match names.as_slice() {
        [only] if *only == kind => Ok(()),
        others => wrong(format!(
            "must have the one field {kind:?}, like the stored input; it has {}",
            if others.is_empty() { "none".to_owned() } else { others.join(", ") }
        )),
    }
}

/// Changes that would need another queue.
fn queue_changes(queue: &ActionQueue, input: &ActionInput) -> Vec<Fault> {
    let fixed = |path: &str, now: &str| {
        let message = format!("cannot be changed: the action stands in the queue of {now:?}");
        Fault::new(path, message)
    };
    match (input, queue.parts()) {
        (ActionInput::Call(call), Some(QueueParts::Call { tenant: _, function }))
            if call.function != function =>
        {
            vec![fixed("input.call.function", function.as_str())]
        }
        (ActionInput::Task(task), Some(QueueParts::Task { tenant: _, kind, labels })) => {
            let mut faults = Vec::new();
            if task.kind != kind {
                faults.push(fixed("input.task.type", kind.as_str()));
            }
            if task.labels != labels {
                faults.push(fixed("input.task.labels", &join_labels(&labels)));
            }
            faults
        }
        (
            ActionInput::Http(_)
            | ActionInput::Log(_)
            | ActionInput::Call(_)
            | ActionInput::Task(_)
            | ActionInput::Device(_)
            | ActionInput::TaskFor(_)
            | ActionInput::Emit(_)
            | ActionInput::Start(_)
            | ActionInput::Wait(_)
            | ActionInput::Webhook(_)
            | ActionInput::Noop(_)
            | ActionInput::Node(_)
            | ActionInput::Return(_)
            | ActionInput::CloseChildren,
            _,
        ) => Vec::new(),
    }
}

fn join_labels(labels: &BTreeSet<Name>) -> String {
    labels.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

/// Fields that were written and are missing in the decoded input. An empty field is ignored, because it is
/// not stored either.
fn unread_fields(path: &str, written: &Value, read: &Value, faults: &mut Vec<Fault>) {
    let (Value::Object(written), Value::Object(read)) = (written, read) else { return };
    for (name, value) in written {
        let path = format!("{path}.{}", clip_text(name));
        match read.get(name) {
            Some(read) => unread_fields(&path, value, read, faults),
            None if says_nothing(value) => {}
            None => faults.push(Fault::new(path, "unknown field")),
        }
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Removes line and column from the message: the path already states the place.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(kind: &str, queue: &ActionQueue, text: &str) -> Result<String, Vec<String>> {
        let raw = RawJson::parse(text).unwrap();
        match read_edited_input(kind, queue, &raw) {
            Ok(input) => Ok(input.as_str().to_owned()),
            Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
        }
    }

    fn http(text: &str) -> Result<String, Vec<String>> {
        edited("http", &ActionQueue::engine_for_all(), text)
    }

    #[test]
    fn edited_input_keeps_its_bytes() {
        let text = r#"{"http":{"method":"POST","url":"http://x/","body":{"b":1.50,"n":null}}}"#;
        assert_eq!(http(text).as_deref(), Ok(text));
        let empty = r#"{"http":{"method":"GET","url":"http://x/","headers":{},"body":null}}"#;
        assert_eq!(http(empty).as_deref(), Ok(r#"{"http":{"method":"GET","url":"http://x/"}}"#));
        let holed =
            r#"{"http":{"method":"GET","url":"http://x/","headers":{"a":{"parts":["B ",{"secret":"t"}]}}}}"#;
        assert_eq!(http(holed).as_deref(), Ok(holed));
        let emit = r#"{"emit":{"to":"o-2","event":"paid","payload":{"a":[1]}}}"#;
        assert_eq!(edited("emit", &ActionQueue::engine_for_all(), emit).as_deref(), Ok(emit));
    }

    #[test]
    fn edited_input_faults_name_paths() {
        for (text, fault) in [
            (r#"{"log":"x"}"#, "input: must have the one field \"http\", like the stored input; it has log"),
            (r#"{}"#, "input: must have the one field \"http\", like the stored input; it has none"),
            (r#"7"#, "input: must be an object with the one field \"http\", like the stored input"),
            (r#"{"http":{"method":"GET"}}"#, "input.http: missing field `url`"),
            (
                r#"{"http":{"method":"GET","url":"http://x/","max_response":-1}}"#,
                "input.http.max_response: invalid value: integer `-1`, expected usize",
            ),
            (r#"{"http":{"method":"GET","url":"http://x/","bdoy":1}}"#, "input.http.bdoy: unknown field"),
        ] {
            assert_eq!(http(text), Err(vec![fault.to_owned()]), "{text}");
        }
    }

    #[test]
    fn edited_input_cannot_change_queue() {
        let name = |word: &str| Name::parse(word).unwrap();
        let queue = ActionQueue::call_for_all(&name("charge"));
        let call = |function: &str| {
            edited("call", &queue, &format!(r#"{{"call":{{"function":"{function}","input":1}}}}"#))
        };
        assert!(call("charge").is_ok());
        let faults = call("refund").unwrap_err();
        assert!(faults[0].starts_with("input.call.function: cannot be changed"), "{faults:?}");
        let queue = ActionQueue::of_task(
            &millstream_model::id::TenantId::default_tenant(),
            &name("resize"),
            &BTreeSet::from([name("gpu")]),
        );
        let faults = edited("task", &queue, r#"{"task":{"type":"crop","input":1}}"#).unwrap_err();
        assert!(faults[0].starts_with("input.task.type"), "{faults:?}");
        assert!(faults[1].starts_with("input.task.labels"), "{faults:?}");
        assert!(edited("task", &queue, r#"{"task":{"type":"resize","labels":["gpu"],"input":1}}"#).is_ok());
    }

    #[test]
    fn engine_inputs_cannot_be_edited() {
        let faults =
            edited("close_children", &ActionQueue::engine_for_all(), "\"close_children\"").unwrap_err();
        assert!(faults[0].contains("engine's own"), "{faults:?}");
    }
}
