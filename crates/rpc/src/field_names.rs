//! Translates field names of the JSON form to those of the messages.
//!
//! The pure crates report problems with the paths of the JSON form; a gRPC client needs the paths of the message
//! fields.

use millstream_model::problem::ValidationProblem;

pub(crate) fn translate_problem(problem: &ValidationProblem) -> ValidationProblem {
    ValidationProblem::new(translate_path(&problem.path), problem.message.clone())
}

/// Translates a path. A path of the message form stays as it is.
fn translate_path(json: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut before = "";
    let mut parts = json.split('.');
    for part in parts.by_ref() {
        words.push(translate_field(before, part));
        before = part;
        if part == "dependencies" {
            break;
        }
    }
    // The rest is a user-defined name.
    words.extend(parts);
    words.join(".")
}

fn translate_field<'a>(before: &str, part: &'a str) -> &'a str {
    match (before, part) {
        (_, "task") => "assigned_task",
        (_, "if") => "condition",
        (_, "input") => "input_json",
        ("", "name") => "metadata.name",
        ("", "description") => "metadata.description",
        ("retry", "max") => "max_backoff",
        (edit, "insert" | "update") if edit.starts_with("edits[") => "node",
        (edit, "delete") if edit.starts_with("edits[") => "node_id",
        (_, same) => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_become_message_paths() {
        for (json, message) in [
            ("", ""),
            ("name", "metadata.name"),
            ("input", "input_json"),
            ("nodes[3].parents[0].node", "nodes[3].parents[0].node"),
            ("nodes[3].parents[0].if", "nodes[3].parents[0].condition"),
            ("nodes[0].task.dependencies.task.if", "nodes[0].assigned_task.dependencies.task.if"),
            ("nodes[0].options.retry.max", "nodes[0].options.retry.max_backoff"),
            ("nodes[0].graph.name", "nodes[0].graph.name"),
            ("nodes[0].graph.input", "nodes[0].graph.input_json"),
            ("edits[0].insert.task.goal", "edits[0].node.assigned_task.goal"),
            ("edits[1].delete", "edits[1].node_id"),
        ] {
            assert_eq!(translate_path(json), message, "{json}");
            assert_eq!(translate_path(message), message, "{message}");
        }
    }
}
