//! Reads `device` actions from the document tree.

use std::collections::BTreeSet;

use millstream_devices::claim::{RunSettingsOverrides, RunSpec};
use millstream_model::document::{DocumentFields, DocumentNode, DocumentReader};
use millstream_model::id::Name;

use super::actions::DeviceSpec;
use super::read_kind::{read_template_field, required_field};

const FIELDS: &[&str] = &[
    "kind",
    "requires",
    "prefer",
    "input",
    "priority",
    "preempt",
    "devices",
    "coordinator",
    "min_battery",
    "settings",
];
const SETTINGS: &[&str] =
    &["assignment_timeout", "claim_timeout", "heartbeat", "heartbeat_timeout", "max_reassignments"];

pub(super) fn read_device(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
) -> Option<DeviceSpec> {
    let fields = reader.read_fields(path, node, FIELDS)?;
    let requires = read_capabilities(reader, &fields, "requires");
    let prefer = read_capabilities(reader, &fields, "prefer");
    let input = read_template_field(reader, &fields, "input");
    let priority = read_number(reader, &fields, "priority", i64::from(i32::MIN)..=i64::from(i32::MAX));
    let devices = read_number(reader, &fields, "devices", 1..=i64::from(RunSpec::MAX_DEVICES));
    let min_battery = read_number(reader, &fields, "min_battery", 0..=100);
    let preempt = read_flag(reader, &fields, "preempt");
    let coordinator = read_flag(reader, &fields, "coordinator");
    let settings = fields.get("settings").map(|(path, node)| read_run_settings(reader, &path, node));
    let (path, node) = required_field(reader, path, &fields, "kind")?;
    Some(DeviceSpec {
        kind: reader.read_name(&path, node)?,
        requires,
        prefer,
        input,
        priority: priority.and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0),
        preempt,
        devices: devices.and_then(|devices| u16::try_from(devices).ok()).unwrap_or(1),
        coordinator,
        min_battery: min_battery.and_then(|percent| u8::try_from(percent).ok()),
        settings: settings.unwrap_or_default(),
    })
}

fn read_capabilities(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    field: &str,
) -> BTreeSet<Name> {
    let mut capabilities = BTreeSet::new();
    if let Some((path, node)) = fields.get(field) {
        for (n, capability) in reader.read_names(&path, node).into_iter().enumerate() {
            if !capabilities.insert(capability) {
                reader.add_problem(format!("{path}[{n}]"), "appears twice");
            }
        }
        reader.check_limit(&path, "capabilities", capabilities.len(), RunSpec::MAX_CAPABILITIES);
    }
    capabilities
}

pub(super) fn read_number(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    field: &str,
    allowed: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let (path, node) = fields.get(field)?;
    let number = reader.read_integer(&path, node)?;
    if !allowed.contains(&number) {
        reader.add_problem(path, format!("must be from {} to {}", allowed.start(), allowed.end()));
        return None;
    }
    Some(number)
}

fn read_flag(reader: &mut DocumentReader, fields: &DocumentFields<'_>, field: &str) -> bool {
    match fields.get(field) {
        None => false,
        Some((_, DocumentNode::Bool(truth))) => *truth,
        Some((path, node)) => {
            reader.add_problem(path, format!("must be true or false, not {}", node.kind()));
            false
        }
    }
}

fn read_run_settings(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> RunSettingsOverrides {
    let Some(fields) = reader.read_fields(path, node, SETTINGS) else {
        return RunSettingsOverrides::default();
    };
    let most = read_number(reader, &fields, "max_reassignments", 0..=10_000);
    let mut length =
        |field: &str| fields.get(field).and_then(|(path, node)| reader.read_duration(&path, node));
    let settings = RunSettingsOverrides {
        assignment_timeout: length("assignment_timeout"),
        claim_timeout: length("claim_timeout"),
        heartbeat: length("heartbeat"),
        heartbeat_timeout: length("heartbeat_timeout"),
        max_reassignments: most.and_then(|most| u32::try_from(most).ok()),
    };
    if let (Some(heartbeat), Some(timeout)) = (settings.heartbeat, settings.heartbeat_timeout)
        && heartbeat >= timeout
    {
        reader.add_problem(format!("{path}.heartbeat"), "must be shorter than heartbeat_timeout");
    }
    settings
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;

    use crate::definition::ActionKind;
    use crate::definition_parser::parse;
    use crate::machine::ActionInput;

    fn source(device: &str) -> String {
        format!(
            "{{name: x, initial: a, states: {{a: {{on: {{go: {{to: b, do: [render]}}}}}}, b: {{final: true}}}},
              actions: {{render: {{device: {device}}}}}}}"
        )
    }

    fn problems(device: &str) -> Vec<String> {
        let problems = parse(&source(device), SourceFormat::Yaml).unwrap_err();
        problems.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn device_spec_survives_canonical_form() {
        let full =
            "{kind: render, requires: [gpu], prefer: [av1], input: {scene: context.scene}, priority: -5,
            preempt: true, devices: 3, coordinator: true, min_battery: 20,
            settings: {assignment_timeout: 10s, claim_timeout: 1m, heartbeat: 5s, heartbeat_timeout: 15s,
                       max_reassignments: 4}}";
        for device in [full, "{kind: render}"] {
            let definition = parse(&source(device), SourceFormat::Yaml).unwrap();
            let again = parse(&definition.canonical_json(), SourceFormat::Json).unwrap();
            assert_eq!(again, definition);
        }
        let definition = parse(&source(full), SourceFormat::Yaml).unwrap();
        let ActionKind::Device(spec) = &definition.actions()["render"].kind else { panic!() };
        assert_eq!((spec.priority, spec.devices, spec.min_battery), (-5, 3, Some(20)));
        assert_eq!(spec.settings.heartbeat.map(|length| length.as_secs()), Some(5));
    }

    #[test]
    fn device_spec_problems_have_paths() {
        let mut found = problems(
            "{requires: [gpu, gpu], devices: 0, min_battery: 101, preempt: 1, priorty: 3,
              settings: {heartbeat: 9s, heartbeat_timeout: 9s, max_reassignments: -1}}",
        );
        found.sort();
        assert_eq!(
            found,
            [
                "actions.render.device.devices: must be from 1 to 100",
                "actions.render.device.kind: is missing",
                "actions.render.device.min_battery: must be from 0 to 100",
                "actions.render.device.preempt: must be true or false, not a number",
                "actions.render.device.priorty: unknown field (did you mean \"priority\"?)",
                "actions.render.device.requires[1]: appears twice",
                "actions.render.device.settings.heartbeat: must be shorter than heartbeat_timeout",
                "actions.render.device.settings.max_reassignments: must be from 0 to 10000",
            ]
        );
        assert_eq!(problems("{kind: r, input: nonsense.x}").len(), 1);
        let both = "{kind: r}, timeouts: {heartbeat: 1s}";
        assert_eq!(
            problems(both),
            ["actions.render.timeouts.heartbeat: is not supported for device: use device.settings.heartbeat"]
        );
    }

    #[test]
    fn device_input_refuses_secrets() {
        let found = problems("{kind: r, input: secret('token')}");
        assert!(found[0].starts_with("actions.render.device.input: "), "{found:?}");
    }

    #[test]
    fn device_input_builds_run_spec() {
        let input: ActionInput = millstream_model::raw::RawJson::parse(
            r#"{"device":{"kind":"render","input":{"n":1},"priority":2,"devices":2,"settings":{"heartbeat_timeout":"9s"}}}"#,
        )
        .unwrap()
        .decode()
        .unwrap();
        let ActionInput::Device(input) = input else { panic!() };
        let execution = millstream_model::id::ExecutionKey {
            tenant: millstream_model::id::TenantId::default_tenant(),
            execution: millstream_model::id::ExecutionId::parse("e").unwrap(),
        };
        let waiting = millstream_devices::claim::WaitingAction {
            key: millstream_model::id::ActionKey {
                execution,
                seq: millstream_model::id::Seq(2),
                action: millstream_model::id::Name::parse("render").unwrap(),
            },
            epoch: millstream_model::id::Epoch::FIRST,
            event_id: millstream_model::id::EventId(uuid::Uuid::nil()),
        };
        let run = input.to_run_spec(&millstream_devices::claim::RunSettings::default(), waiting.clone());
        assert_eq!((run.priority, run.devices, run.waiting), (2, 2, Some(waiting)));
        assert_eq!((run.settings.heartbeat_timeout.as_secs(), run.settings.heartbeat.as_secs()), (9, 3));
    }
}
