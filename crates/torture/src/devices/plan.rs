//! Parameters of the runs, drawn from the seed: the same seed gives the same runs.

use serde_json::{Value, json};

use crate::chance::TortureRandom;

/// Event to the execution when its run is completed.
pub(super) const SUCCEEDED: &str = "made";
/// Event to the execution when its run has failed.
pub(super) const FAILED: &str = "not_made";
/// The definition that creates runs.
pub(super) const DEFINITION: &str = "device_job";
/// A capability that few devices have.
pub(super) const SCARCE: &str = "gpu";
/// A capability that all devices have.
pub(super) const COMMON: &str = "cpu";

pub(super) fn device_definition() -> String {
    let settings = device_settings();
    format!(
        "
name: {DEFINITION}
initial: waiting
context: {{ steps: 1 }}
states:
  waiting:
    on:
      make: {{ to: working, do: [make] }}
  working:
    on:
      {SUCCEEDED}: {{ to: over }}
      {FAILED}: {{ to: over }}
  over: {{ final: true }}
actions:
  make:
    device:
      kind: job
      requires: [{COMMON}]
      input: {{ steps: event.payload.steps, pace: event.payload.pace }}
      settings: {settings}
    on_success: {SUCCEEDED}
    on_failure: {FAILED}
"
    )
}

/// Short timeouts, so that thousands of runs take minutes.
pub(super) fn device_settings() -> Value {
    json!({ "assignment_timeout": "1s", "claim_timeout": "2s", "heartbeat": "500ms",
            "heartbeat_timeout": "2s", "max_reassignments": 12 })
}

/// One run, or an execution that creates one.
#[derive(Debug, Clone)]
pub(super) enum PlannedRun {
    Run {
        id: String,
        body: Value,
        /// The engine chooses no device: several are invited to claim it.
        is_free: bool,
    },
    Execution {
        id: String,
        body: Value,
    },
}

/// The run of this number in a torture with `devices` devices.
pub(super) fn planned_run(number: usize, devices: usize, chance: &mut TortureRandom) -> PlannedRun {
    let input = json!({ "steps": 1 + chance.below(4), "pace": 30 + chance.below(370) });
    let id = format!("run-{number}");
    let mut body = json!({ "run_id": id, "kind": "job", "requires": [COMMON], "input": input,
                           "settings": device_settings() });
    let mut is_free = false;
    match chance.below(100) {
        0..54 => {}
        // The device that creates the run claims it, or does not.
        54..64 => {
            body["created_by"] = device_name(chance.index(devices)).into();
            body["willing"] = chance.percent(80).into();
        }
        64..74 => body["devices"] = (2 + chance.below(2)).into(),
        74..84 => {
            is_free = true;
            body["assign"] = "manual".into();
        }
        84..89 => body["requires"] = json!([SCARCE]),
        89..93 => {
            body["requires"] = json!([SCARCE]);
            body["priority"] = 9.into();
            body["preempt"] = true.into();
        }
        93..95 => body["coordinator"] = true.into(),
        _ => {
            let id = format!("execution-{number}");
            let events = json!([{ "name": "make", "payload": input }]);
            let body = json!({ "definition": DEFINITION, "execution_id": id, "events": events });
            return PlannedRun::Execution { id, body };
        }
    }
    PlannedRun::Run { id, body, is_free }
}

/// Id of a device by its number.
pub(super) fn device_name(number: usize) -> String {
    format!("device-{number}")
}

/// Self-description of a device.
pub(super) fn describe_device(number: usize, chance: &mut TortureRandom) -> Value {
    let is_scarce = number.is_multiple_of(8);
    let capabilities = if is_scarce { json!([COMMON, SCARCE]) } else { json!([COMMON]) };
    json!({ "capabilities": capabilities, "capability": chance.below(10),
            "capacity": if is_scarce { 2 } else { 3 + chance.below(3) },
            "quality": 0.5 + chance.below(50) as f64 / 100.0, "coordinator": chance.percent(30) })
}
