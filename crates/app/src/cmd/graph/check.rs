//! `millstream graph check FILE`: all problems of a graph, without a server.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_core::graph::{GraphSpec, Invalid, read, validate};
use millstream_core::problem::Problems;
use serde_json::json;

use crate::failure::{ExitCode, Failure};
use crate::output::Output;
use crate::written;

pub(super) fn run(file: &Path, output: Output) -> Result<()> {
    match checked(file)? {
        Ok(graph) => {
            let value = json!({ "name": graph.name, "nodes": graph.nodes.len(), "problems": [] });
            output.show(&value, |_| {
                let nodes = graph.nodes.len();
                let noun = if nodes == 1 { "node" } else { "nodes" };
                format!("{} is valid: {nodes} {noun}", graph.name)
            })
        }
        Err(problems) => {
            if output == Output::Json {
                output.show(&json!({ "problems": problems.0 }), |_| String::new())?;
            }
            bail!(wrong(file, &problems));
        }
    }
}

fn checked(file: &Path) -> Result<Result<GraphSpec, Problems>> {
    let (text, format) = written::definition(file)?;
    Ok(read(&text, format).and_then(|graph| {
        validate(&graph).map_err(Invalid::into_problems)?;
        Ok(graph)
    }))
}

/// An error that lists the mistakes of a file, each with its place.
pub(super) fn wrong(file: &Path, problems: &Problems) -> Failure {
    let count = problems.0.len();
    let lines: Vec<_> = problems.0.iter().map(|problem| format!("  {problem}")).collect();
    let noun = if count == 1 { "problem" } else { "problems" };
    Failure::new(ExitCode::Invalid, format!("{}: {count} {noun}\n{}", file.display(), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("graph.yaml");
        std::fs::write(&file, source).unwrap();
        match run(&file, Output::Text) {
            Ok(()) => "valid".to_owned(),
            Err(error) => error.to_string().replace(&directory.path().display().to_string(), "."),
        }
    }

    #[test]
    fn mistakes_are_named_with_their_places() {
        assert_eq!(told("{ name: x, nodes: [{ id: a }, { id: b, parents: [a] }] }"), "valid");
        insta::assert_snapshot!(
            told("{ name: x, nodes: [{ id: a, parents: [b] }, { id: b, parents: [a, c] }] }"),
            @r#"
        ./graph.yaml: 2 problems
          nodes[1].parents[1]: there is no "c" (did you mean "a"?)
          nodes: these nodes wait for each other: a -> b -> a
        "#
        );
        insta::assert_snapshot!(
            told("{ name: x, nodes: [{ id: a, tsak: {} }] }").lines().last().unwrap_or_default(),
            @"  nodes[0].tsak: unknown field `tsak`, expected one of `id`, `parents`, `agent`, `task`, `options`, `on_failure`, `is_final`, `fan_out`, `graph`, `execution`"
        );
    }
}
