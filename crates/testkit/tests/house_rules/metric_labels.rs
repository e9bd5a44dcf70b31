//! Labels of metrics: every label key that is used in the workspace, and what bounds its values.
//!
//! A series is kept for the life of the process. A label whose value comes from a request, or whose values
//! tenants choose, lets one client fill the memory and make `/metrics` unreadable. So: every label is written
//! out at its macro, every key is on this list, and every value is a literal or an expression on this list.

use crate::tree::{SourceFile, crate_sources, enforce_rule};

/// Keys, the expressions that their values may come from besides literals, and what bounds those.
const LABELS: &[(&str, &[&str], &str)] = &[
    ("budget", &["budget.as_str()"], "the budgets of anonymous calls: an enum"),
    ("code", &["code"], "the codes of gRPC"),
    ("kind", &["kind"], "the kinds of actions: an enum"),
    ("lane", &["lane.clone()", "number", "number.clone()"], "the lanes of the stream: 16"),
    ("method", &["method"], "the methods of HTTP that are served, the methods of the gRPC services, `other`"),
    ("outcome", &["outcome"], "the outcomes of an attempt: an enum"),
    ("reason", &["reason", "reason.as_str()"], "enums, and the limits of connections: literals"),
    ("route", &["route", "route.clone()"], "the routes of the router, `none`"),
    ("sink", &["name()", "sink.as_str().to_owned()"], "the sinks of the settings"),
    (
        "status",
        &[
            "*status",
            "ended.phase.as_str()",
            "last.decision.phase.as_str()",
            "node.status.as_str()",
            "status.as_str()",
            "status.as_u16().to_string()",
        ],
        "enums, and the statuses that the ingress answers with",
    ),
    ("sweep", &["duty"], "the duties of a worker: constants"),
    ("verdict", &["verdict"], "the verdicts on an event: an enum"),
    ("what", &["entry.what.as_str()", "what"], "the words of the logs of items: an enum"),
    ("why", &["why"], "the reasons for refusing a device: literals"),
    ("worker", &["id", "id.clone()", "me.to_string()"], "the workers of this process"),
];

const MACROS: &[&str] = &["counter!(", "gauge!(", "histogram!("];
/// Other ways to make a label, which this rule does not read.
const HIDDEN: &[&str] = &["metrics::Label", "metrics::Key", "Label::new(", "Label::from_static_parts("];

fn file_complaints(file: &SourceFile) -> Vec<String> {
    let text = file.production_code();
    let mut said: Vec<String> = HIDDEN
        .iter()
        .filter(|word| text.contains(**word))
        .map(|word| format!("makes labels with `{word}`; write them out at the macro"))
        .collect();
    for arguments in MACROS.iter().flat_map(|name| macro_invocations(&text, name)) {
        for label in arguments.iter().skip(1) {
            said.extend(label_complaint(label));
        }
    }
    said
}

/// What is wrong with one argument behind the name of a metric.
fn label_complaint(label: &str) -> Option<String> {
    let Some((key, value)) = label.split_once("=>") else {
        return Some(format!("`{label}` hides labels; write them out as \"key\" => value"));
    };
    let (key, value) = (key.trim().trim_matches('"'), value.trim());
    let Some((_, allowed, bound)) = LABELS.iter().find(|(known, _, _)| *known == key) else {
        return Some(format!("the label {key:?} is not on the list"));
    };
    let literal = value.starts_with('"') && value.ends_with('"');
    (!literal && !allowed.contains(&value))
        .then(|| format!("the value `{value}` of the label {key:?} is not on the list ({bound})"))
}

/// The arguments of every invocation of a macro, outside of descriptions.
fn macro_invocations(text: &str, name: &str) -> Vec<Vec<String>> {
    let begins_word = |at: usize| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|character| character.is_alphanumeric() || character == '_')
    };
    let found = text.match_indices(name).filter(|(at, _)| begins_word(*at));
    found.map(|(at, _)| macro_arguments(&text[at + name.len()..])).collect()
}

/// Splits at the commas of the outermost level, up to the parenthesis that closes it.
fn macro_arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut all, mut one) = (0, false, Vec::new(), String::new());
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted && depth == 0 => break,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                all.push(std::mem::take(&mut one));
                continue;
            }
            _ => {}
        }
        one.push(character);
    }
    all.push(one);
    all.iter()
        .map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|one| !one.is_empty())
        .collect()
}

#[test]
fn metric_labels_have_bounded_values() {
    for (sample, count) in [
        (r#"counter!(NAME, "status" => "failed").increment(1);"#, 0),
        (r#"describe_counter!("name", "words");"#, 0),
        (r#"metrics::gauge!(NAME).set(1.0);"#, 0),
        (r#"counter!(NAME, "queue" => "x").increment(1);"#, 1),
        ("counter!(\n  NAME, \"method\" => path.to_owned(), \"code\" => code,\n)", 1),
        ("gauge!(name, &labels).set(1.0)", 1),
        ("metrics::Label::new(key, value)", 2),
    ] {
        assert_eq!(file_complaints(&SourceFile::sample("a.rs", sample)).len(), count, "{sample}");
    }
    let files = crate_sources();
    let labelled =
        |file: &&SourceFile| file.text.contains("=>") && MACROS.iter().any(|name| file.text.contains(name));
    assert!(files.iter().filter(labelled).count() > 10, "the walk finds no metrics");
    enforce_rule(&files, file_complaints);
}
