//! `millstream graph edit ID FILE`: change the shape of a graph that runs.

use anyhow::{Result, bail};
use millstream_core::graph::{Edit, read_patch};
use reqwest::Method;

use super::check::wrong;
use super::path;
use crate::cli::GraphEditArgs;
use crate::client::Client;
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, plain};
use crate::written;

pub(super) async fn run(args: &GraphEditArgs, client: &Client, output: Output) -> Result<()> {
    let patch = patch(args)?;
    let request = client.request(Method::POST, &path::graph(&args.graph, "/edits")).json(&patch);
    let answer = client.json(request).await?;
    output.show(&answer, |answer| match answer["revision"].as_u64() {
        Some(revision) => format!("{} is at revision {revision} now", args.graph),
        // Accepted, and not decided within the wait.
        None => format!("{} is being edited by event {}", args.graph, plain(&answer["event_id"])),
    })
}

fn patch(args: &GraphEditArgs) -> Result<Edit> {
    let (text, format) = written::definition(&args.file)?;
    let written = read_patch(&text, format).map_err(|problems| wrong(&args.file, &problems))?;
    let Some(expected_revision) = args.expected_revision.or(written.expected_revision) else {
        bail!(Failure::new(
            ExitCode::Invalid,
            format!(
                "which revision are the edits for? say expected_revision in {}, or --expected-revision N; \
                 `millstream graph get {}` shows it",
                args.file.display(),
                args.graph
            )
        ));
    };
    Ok(Edit { expected_revision, edits: written.edits, known: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &str, expected_revision: Option<u32>) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("patch.yaml");
        std::fs::write(&file, source)?;
        let args = GraphEditArgs { graph: "g".to_owned(), file, expected_revision };
        Ok(serde_json::to_string(&patch(&args)?)?)
    }

    #[test]
    fn the_revision_is_in_the_file_or_on_the_command_line() {
        let file = "{ expected_revision: 3, edits: [{ delete: a }] }";
        assert_eq!(told(file, None).unwrap(), r#"{"expected_revision":3,"edits":[{"delete":"a"}]}"#);
        assert_eq!(told(file, Some(4)).unwrap(), r#"{"expected_revision":4,"edits":[{"delete":"a"}]}"#);
        let error = told("{ edits: [{ delete: a }] }", None).unwrap_err();
        assert!(error.to_string().starts_with("which revision are the edits for?"), "{error}");
    }

    #[test]
    fn a_patch_that_is_none_is_told_with_its_place() {
        let error = told("{ edits: [{ remove: a }] }", Some(1)).unwrap_err();
        assert!(error.to_string().contains("edits[0]: unknown variant `remove`"), "{error}");
    }
}
