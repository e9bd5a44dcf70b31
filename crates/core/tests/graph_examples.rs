//! The example graphs are valid, and so are the edits that the documentation shows.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use millstream_core::definition::Format;
use millstream_core::expr::Budget;
use millstream_core::graph::{GraphSpec, create, patch, read, read_patch, validate};
use millstream_core::id::EventId;
use millstream_core::time::Timestamp;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/graphs");

fn files(directory: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let yaml = entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut found: Vec<_> = yaml
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn graph(name: &str, source: &str) -> GraphSpec {
    read(source, Format::Yaml).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

#[test]
fn every_example_is_valid_and_named_after_its_file() {
    let examples = files(DIRECTORY);
    assert!(examples.len() >= 3);
    for (name, source) in examples {
        let graph = graph(&name, &source);
        validate(&graph).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        assert_eq!(graph.name, name);
    }
}

#[test]
fn what_is_written_of_an_example_is_the_same_graph() {
    for (name, source) in files(DIRECTORY) {
        let graph = graph(&name, &source);
        let again = serde_json::to_string(&graph).unwrap();
        assert_eq!(read(&again, Format::Json).unwrap(), graph, "{name}");
    }
}

#[test]
fn every_list_of_edits_fits_the_graph_of_its_name() {
    let edits = files(&format!("{DIRECTORY}/edits"));
    assert!(!edits.is_empty());
    for (name, source) in edits {
        let of = std::fs::read_to_string(format!("{DIRECTORY}/{name}.yaml")).unwrap();
        let event = EventId(uuid::Uuid::nil());
        let (_, state) = create(graph(&name, &of), None, event, None, Timestamp::EPOCH).unwrap();
        let graph = state.graph.unwrap();
        let written =
            read_patch(&source, Format::Yaml).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(written.expected_revision, Some(graph.revision), "{name}");
        patch(&graph, &written.edits, &Budget::default())
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
    }
}
