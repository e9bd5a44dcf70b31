//! `millstream graph check FILE`: all problems of a graph, without a server.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_model::problem::ValidationProblems;
use millstream_workflow::graph::{GraphSpec, InvalidGraph, read_graph, validate_graph};
use serde_json::json;

use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;
use crate::user_input;

pub(super) fn run(file: &Path, output: CliOutput) -> Result<()> {
    match check_file(file)? {
        Ok(graph) => {
            let value = json!({ "name": graph.name, "nodes": graph.nodes.len(), "problems": [] });
            output.show(&value, |_| {
                let nodes = graph.nodes.len();
                let noun = if nodes == 1 { "node" } else { "nodes" };
                format!("{} is valid: {nodes} {noun}", graph.name)
            })
        }
        Err(problems) => {
            if output == CliOutput::Json {
                output.show(&json!({ "problems": problems.0 }), |_| String::new())?;
            }
            bail!(problems_failure(file, &problems));
        }
    }
}

fn check_file(file: &Path) -> Result<Result<GraphSpec, ValidationProblems>> {
    let (text, format) = user_input::read_definition(file)?;
    Ok(read_graph(&text, format).and_then(|graph| {
        validate_graph(&graph).map_err(InvalidGraph::into_problems)?;
        Ok(graph)
    }))
}

/// An error that lists the mistakes of a file, each with its place.
pub(super) fn problems_failure(file: &Path, problems: &ValidationProblems) -> CommandFailure {
    let count = problems.0.len();
    let lines: Vec<_> = problems.0.iter().map(|problem| format!("  {problem}")).collect();
    let noun = if count == 1 { "problem" } else { "problems" };
    CommandFailure::new(
        ExitCode::Invalid,
        format!("{}: {count} {noun}\n{}", file.display(), lines.join("\n")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_text(source: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("graph.yaml");
        std::fs::write(&file, source).unwrap();
        match run(&file, CliOutput::Text) {
            Ok(()) => "valid".to_owned(),
            Err(error) => error.to_string().replace(&directory.path().display().to_string(), "."),
        }
    }

    #[test]
    fn mistakes_are_named_with_their_places() {
        assert_eq!(problems_text("{ name: x, nodes: [{ id: a }, { id: b, parents: [a] }] }"), "valid");
        insta::assert_snapshot!(
            problems_text("{ name: x, nodes: [{ id: a, parents: [b] }, { id: b, parents: [a, c] }] }"),
            @r#"
        ./graph.yaml: 2 problems
          nodes[1].parents[1]: there is no "c" (did you mean "a"?)
          nodes: these nodes wait for each other: a -> b -> a
        "#
        );
        insta::assert_snapshot!(
            problems_text("{ name: x, nodes: [{ id: a, tsak: {} }] }").lines().last().unwrap_or_default(),
            @"  nodes[0].tsak: unknown field `tsak`, expected one of `id`, `parents`, `agent`, `task`, `options`, `on_failure`, `is_final`, `fan_out`, `graph`, `execution`"
        );
    }
}
