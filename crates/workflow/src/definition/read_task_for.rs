//! Reads `task_for` actions (work for people) from the document tree.

use std::collections::BTreeSet;

use millstream_model::document::{DocumentFields, DocumentNode, DocumentReader};
use millstream_model::id::Name;
use millstream_people::assignment::item::ItemOverrides;
use millstream_people::assignment::limits::{MAX_OVERLAP, MAX_PRIORITY, MAX_SKILLS};

use super::actions::TaskForSpec;
use super::read_device::read_number;
use super::read_kind::{read_template_field, required_field};

const FIELDS: &[&str] = &["queue", "payload", "priority", "skills", "overlap", "due"];

pub(super) fn read_task_for(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
) -> Option<TaskForSpec> {
    let fields = reader.read_fields(path, node, FIELDS)?;
    let payload = read_template_field(reader, &fields, "payload");
    let priority = read_number(reader, &fields, "priority", -MAX_PRIORITY..=MAX_PRIORITY);
    let skills = read_skills(reader, &fields);
    let overlap = read_number(reader, &fields, "overlap", 1..=MAX_OVERLAP);
    let due = fields.get("due").and_then(|(path, node)| reader.read_duration(&path, node));
    let (path, node) = required_field(reader, path, &fields, "queue")?;
    Some(TaskForSpec {
        queue: reader.read_name(&path, node)?,
        payload,
        own: ItemOverrides {
            priority: priority.and_then(|priority| i32::try_from(priority).ok()),
            skills,
            overlap: overlap.and_then(|overlap| u32::try_from(overlap).ok()),
        },
        due,
    })
}

fn read_skills(reader: &mut DocumentReader, fields: &DocumentFields<'_>) -> BTreeSet<Name> {
    let mut skills = BTreeSet::new();
    if let Some((path, node)) = fields.get("skills") {
        for (n, skill) in reader.read_names(&path, node).into_iter().enumerate() {
            if !skills.insert(skill) {
                reader.add_problem(format!("{path}[{n}]"), "appears twice");
            }
        }
        reader.check_limit(&path, "skills", skills.len(), MAX_SKILLS);
    }
    skills
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;
    use millstream_model::id::{
        ActionKey, DefinitionRef, Epoch, EventId, ExecutionId, ExecutionKey, ItemId, Name, Seq, TenantId,
    };
    use millstream_model::raw::RawJson;
    use millstream_model::time::Timestamp;
    use millstream_people::assignment::ItemWaiter;

    use crate::definition::ActionKind;
    use crate::definition_parser::parse;
    use crate::machine::ActionInput;

    fn source(task: &str) -> String {
        format!(
            "{{name: x, initial: a, states: {{a: {{on: {{go: {{to: b, do: [look]}}}}}}, b: {{final: true}}}},
              actions: {{look: {{task_for: {task}}}}}}}"
        )
    }

    fn problems(task: &str) -> Vec<String> {
        let problems = parse(&source(task), SourceFormat::Yaml).unwrap_err();
        problems.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn task_for_spec_survives_canonical_form() {
        let full = "{queue: review, payload: {film: context.film}, priority: -5, skills: [french, film],
                     overlap: 2, due: 2d}";
        for task in [full, "{queue: review}"] {
            let definition = parse(&source(task), SourceFormat::Yaml).unwrap();
            let again = parse(&definition.canonical_json(), SourceFormat::Json).unwrap();
            assert_eq!(again, definition);
        }
        let definition = parse(&source(full), SourceFormat::Yaml).unwrap();
        let ActionKind::TaskFor(spec) = &definition.actions()["look"].kind else { panic!() };
        assert_eq!((spec.own.priority, spec.own.overlap, spec.own.skills.len()), (Some(-5), Some(2), 2));
        assert_eq!(spec.due.map(|due| due.as_secs()), Some(2 * 86_400));
    }

    #[test]
    fn absent_task_for_fields_stay_absent() {
        let definition = parse(&source("{queue: review}"), SourceFormat::Yaml).unwrap();
        let canonical = definition.canonical_json();
        assert!(canonical.contains(r#""task_for":{"queue":"review"}"#), "{canonical}");
    }

    #[test]
    fn task_for_spec_problems_have_paths() {
        let mut found =
            problems("{skills: [a, a], overlap: 0, priority: 1000001, due: 5, payload: 1, quue: review}");
        found.sort();
        assert_eq!(
            found,
            [
                "actions.look.task_for.due: must be a duration like 200ms, 30s or 1h30m, not a number",
                "actions.look.task_for.overlap: must be from 1 to 100",
                "actions.look.task_for.priority: must be from -1000000 to 1000000",
                "actions.look.task_for.queue: is missing",
                "actions.look.task_for.quue: unknown field (did you mean \"queue\"?)",
                "actions.look.task_for.skills[1]: appears twice",
            ]
        );
        assert_eq!(problems("{queue: q, payload: nonsense.x}").len(), 1);
        assert_eq!(
            problems("{queue: q}, timeouts: {heartbeat: 1s}"),
            ["actions.look.timeouts.heartbeat: is not supported for task_for: the limits of its queue apply"]
        );
    }

    #[test]
    fn task_for_payload_refuses_secrets() {
        let found = problems("{queue: q, payload: {key: secret('token')}}");
        assert!(found[0].starts_with("actions.look.task_for.payload.key: "), "{found:?}");
    }

    #[test]
    fn task_for_input_builds_item() {
        let stored = r#"{"task_for":{"queue":"review","payload":{"n":1.50},"overlap":2,"due":"1h"}}"#;
        let input: ActionInput = RawJson::parse(stored).unwrap().decode().unwrap();
        let ActionInput::TaskFor(task) = &input else { panic!() };
        let execution =
            ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("e").unwrap() };
        let waiter = ItemWaiter {
            action: ActionKey { execution, seq: Seq(2), action: Name::parse("look").unwrap() },
            epoch: Epoch::FIRST,
            event_id: EventId(uuid::Uuid::nil()),
            definition: DefinitionRef { name: Name::parse("x").unwrap(), version: 1 },
            attempt: 1,
            revision: 0,
            traceparent: None,
        };
        let id = ItemId::parse("action:1").unwrap();
        let item = task.to_new_item(id, waiter.clone(), Timestamp::from_millis(1_000));
        assert_eq!((item.payload.as_str(), item.own.overlap), (r#"{"n":1.50}"#, Some(2)));
        assert_eq!(item.due_at, Some(Timestamp::from_millis(3_601_000)));
        assert_eq!(item.waiter, Some(waiter));
    }
}
