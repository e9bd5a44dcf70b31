//! Forbidden dependencies of code: clocks in the pure crates, SQL outside the stores, settings in roles, sleeps in
//! tests.

use crate::tree::{SourceFile, crate_sources, enforce_rule, files_ending_in, matching_lines};

/// Crates that decide and never act.
const PURE_CRATES: &[&str] = &["devices", "expr", "model", "people", "workflow"];

/// Words that make a decision depend on something other than its input.
const IMPURE: &[&str] = &[
    "tokio",
    "async fn",
    "async move",
    "async {",
    ".await",
    "SystemTime",
    "Instant",
    "Utc::now",
    "HashMap",
    "HashSet",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "rand::",
    "new_v4",
    "now_v7",
];

/// Statements as they begin in a string.
const SQL: &[&str] = &["SELECT ", "INSERT INTO ", "DELETE FROM ", "UPDATE ", "CREATE TABLE ", "WITH "];

fn lines_with(text: &str, words: &[&str]) -> Vec<String> {
    matching_lines(text, |line| {
        words.iter().find(|word| line.contains(**word)).map(|word| format!("uses `{word}`: {line}"))
    })
}

#[test]
fn pure_crates_are_free_of_effects() {
    let rule = |file: &SourceFile| lines_with(&file.production_code(), IMPURE);
    assert_eq!(rule(&SourceFile::sample("step.rs", "let now = Instant::now();\n// Instant\n")).len(), 1);
    let files = crate_sources();
    enforce_rule(
        files.iter().filter(|file| file.crate_name().is_some_and(|name| PURE_CRATES.contains(&name))),
        rule,
    );
}

#[test]
fn sql_stays_in_store_crates() {
    let rule = |file: &SourceFile| {
        let starts: Vec<String> = SQL.iter().map(|verb| format!("\"{verb}")).collect();
        lines_with(&file.production_code(), &starts.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", "query(\"SELECT 1\")")).len(), 1);
    let files = crate_sources();
    let outside = |file: &&SourceFile| {
        !matches!(
            file.crate_name(),
            Some("store-postgres" | "store-sqlite" | "testkit" | "torture" | "bench")
        )
    };
    enforce_rule(files.iter().filter(outside), rule);
}

#[test]
fn roles_never_read_the_environment() {
    let rule =
        |file: &SourceFile| lines_with(&file.production_code(), &["env::var", "env!(\"MILL", "option_env!"]);
    assert_eq!(rule(&SourceFile::sample("a.rs", "std::env::var(\"HOME\")")).len(), 1);
    let files = crate_sources();
    enforce_rule(
        files.iter().filter(|file| !matches!(file.crate_name(), Some("runtime" | "testkit" | "torture"))),
        rule,
    );
}

#[test]
fn tests_wait_for_conditions_only() {
    let rule = |file: &SourceFile| match file.stem() {
        // A slow network is slow.
        "eventually" | "proxy" => vec![],
        _ => lines_with(&file.text, &[concat!("sleep", "(")]),
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", concat!("tokio::time::sleep", "(second)"))).len(), 1);
    let files = files_ending_in(&[".rs"]);
    enforce_rule(
        files.iter().filter(|file| file.path.contains("/tests/") || file.crate_name() == Some("testkit")),
        rule,
    );
}

#[test]
fn no_ignored_tests_or_todos() {
    let unfinished = [
        concat!("#[", "ignore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("fn ", "test_"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    let rule = |file: &SourceFile| lines_with(&file.text, &unfinished);
    assert_eq!(rule(&SourceFile::sample("a.rs", concat!("#[", "ignore]"))).len(), 1);
    enforce_rule(&files_ending_in(&[".rs"]), rule);
}
