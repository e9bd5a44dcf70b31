//! The example graphs are valid, and so are the edits that the documentation shows.

use millstream_expr::ExprBudget;
use millstream_model::document::SourceFormat;
use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_workflow::graph::{GraphSpec, build_patch, read_graph, read_patch, validate_graph};
use millstream_workflow::graph_machine::create_graph;

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
    read_graph(source, SourceFormat::Yaml).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

#[test]
fn example_graphs_are_valid_and_named() {
    let examples = files(DIRECTORY);
    assert!(examples.len() >= 3);
    for (name, source) in examples {
        let graph = graph(&name, &source);
        validate_graph(&graph).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        assert_eq!(graph.name, name);
    }
}

#[test]
fn serialised_example_graph_is_unchanged() {
    for (name, source) in files(DIRECTORY) {
        let graph = graph(&name, &source);
        let again = serde_json::to_string(&graph).unwrap();
        assert_eq!(read_graph(&again, SourceFormat::Json).unwrap(), graph, "{name}");
    }
}

#[test]
fn example_edits_apply_to_their_graph() {
    let edits = files(&format!("{DIRECTORY}/edits"));
    assert!(!edits.is_empty());
    for (name, source) in edits {
        let of = std::fs::read_to_string(format!("{DIRECTORY}/{name}.yaml")).unwrap();
        let event = EventId(uuid::Uuid::nil());
        let (_, state) = create_graph(graph(&name, &of), None, event, None, Timestamp::EPOCH).unwrap();
        let graph = state.graph.unwrap();
        let written =
            read_patch(&source, SourceFormat::Yaml).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(written.expected_revision, Some(graph.revision), "{name}");
        build_patch(&graph, &written.edits, &ExprBudget::default())
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
    }
}
