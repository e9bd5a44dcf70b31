//! Tests that the examples in `examples/` are valid.

use millstream_model::document::SourceFormat;
use millstream_people::assignment::QueueConfig;
use millstream_workflow::definition::ActionKind;
use millstream_workflow::definition_parser::parse;
use millstream_workflow::machine::Machine;

fn examples() -> Vec<(String, String)> {
    texts_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

fn texts_in(directory: &str) -> Vec<(String, String)> {
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn examples_are_valid_definitions() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for (name, source) in examples {
        let definition =
            parse(&source, SourceFormat::Yaml).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(definition.name().as_str(), name);
        Machine::compile(definition).unwrap();
    }
}

#[test]
fn examples_survive_canonical_form() {
    for (name, source) in examples() {
        let definition = parse(&source, SourceFormat::Yaml).unwrap();
        let again = parse(&definition.canonical_json(), SourceFormat::Json)
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(again, definition, "{name}");
        assert_eq!(again.checksum(), definition.checksum(), "{name}");
    }
}

#[test]
fn example_queues_exist_and_are_valid() {
    let queues: Vec<_> = texts_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/queues"))
        .into_iter()
        .map(|(name, source)| {
            let queue = QueueConfig::parse(&source, SourceFormat::Yaml);
            let queue = queue.unwrap_or_else(|problems| panic!("{name}: {problems}"));
            assert_eq!(queue.name.as_str(), name);
            queue.name
        })
        .collect();
    let mut asked = 0;
    for (name, source) in examples() {
        let definition = parse(&source, SourceFormat::Yaml).unwrap();
        for action in definition.actions().values() {
            if let ActionKind::TaskFor(spec) = &action.kind {
                assert!(queues.contains(&spec.queue), "{name}: {}", spec.queue);
                asked += 1;
            }
        }
    }
    assert!(asked >= 2);
}
