//! `millstream graph edit ID FILE`: change the shape of a graph that runs.

use anyhow::{Result, bail};
use millstream_sdk::Client;
use millstream_sdk::client::GraphEditAnswer;
use millstream_workflow::graph::{GraphEdit, read_patch};

use super::check::problems_failure;
use crate::cli::GraphEditArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;
use crate::user_input;

pub(super) async fn run(args: &GraphEditArgs, client: &Client, output: CliOutput) -> Result<()> {
    let patch = edit_request(args)?;
    let editing = client.edit_graph(&args.graph, patch.expected_revision).edits(patch.edits);
    match editing.without_waiting().await? {
        GraphEditAnswer::Applied(applied) => {
            output.show(&applied, |applied| format!("{} is at revision {} now", args.graph, applied.revision))
        }
        // Accepted, and not decided within the wait.
        GraphEditAnswer::Accepted(accepted) => output.show(&accepted, |accepted| {
            format!("{} is being edited by event {}", args.graph, accepted.event_id)
        }),
    }
}

fn edit_request(args: &GraphEditArgs) -> Result<GraphEdit> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let written = read_patch(&text, format).map_err(|problems| problems_failure(&args.file, &problems))?;
    let Some(expected_revision) = args.expected_revision.or(written.expected_revision) else {
        bail!(CommandFailure::new(
            ExitCode::Invalid,
            format!(
                "which revision are the edits for? say expected_revision in {}, or --expected-revision N; \
                 `millstream graph get {}` shows it",
                args.file.display(),
                args.graph
            )
        ));
    };
    Ok(GraphEdit { expected_revision, edits: written.edits, known: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits_json(source: &str, expected_revision: Option<u32>) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("patch.yaml");
        std::fs::write(&file, source)?;
        let args = GraphEditArgs { graph: "g".to_owned(), file, expected_revision };
        Ok(serde_json::to_string(&edit_request(&args)?)?)
    }

    #[test]
    fn edit_revision_from_file_or_argument() {
        let file = "{ expected_revision: 3, edits: [{ delete: a }] }";
        assert_eq!(edits_json(file, None).unwrap(), r#"{"expected_revision":3,"edits":[{"delete":"a"}]}"#);
        assert_eq!(edits_json(file, Some(4)).unwrap(), r#"{"expected_revision":4,"edits":[{"delete":"a"}]}"#);
        let error = edits_json("{ edits: [{ delete: a }] }", None).unwrap_err();
        assert!(error.to_string().starts_with("which revision are the edits for?"), "{error}");
    }

    #[test]
    fn invalid_graph_edit_names_its_place() {
        let error = edits_json("{ edits: [{ remove: a }] }", Some(1)).unwrap_err();
        assert!(error.to_string().contains("edits[0]: unknown variant `remove`"), "{error}");
    }
}
