//! Forbidden dependencies of code: clocks in the core, SQL outside the stores, settings in roles, sleeps in
//! tests.

use crate::tree::{SourceFile, enforce, files, lines, sources};

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

fn mentions(text: &str, words: &[&str]) -> Vec<String> {
    lines(text, |line| {
        words.iter().find(|word| line.contains(**word)).map(|word| format!("uses `{word}`: {line}"))
    })
}

#[test]
fn the_core_decides_without_clock_chance_or_input_and_output() {
    let rule = |file: &SourceFile| mentions(&file.production(), IMPURE);
    assert_eq!(rule(&SourceFile::sample("core.rs", "let now = Instant::now();\n// Instant\n")).len(), 1);
    let files = sources();
    enforce(files.iter().filter(|file| file.member() == Some("core")), rule);
}

#[test]
fn sql_is_written_in_the_store_crates_alone() {
    let rule = |file: &SourceFile| {
        let starts: Vec<String> = SQL.iter().map(|verb| format!("\"{verb}")).collect();
        mentions(&file.production(), &starts.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", "query(\"SELECT 1\")")).len(), 1);
    let files = sources();
    let outside = |file: &&SourceFile| {
        !matches!(file.member(), Some("store-postgres" | "store-sqlite" | "testkit" | "torture" | "bench"))
    };
    enforce(files.iter().filter(outside), rule);
}

#[test]
fn roles_receive_options_and_never_read_the_environment() {
    let rule = |file: &SourceFile| mentions(&file.production(), &["env::var", "env!(\"MILL", "option_env!"]);
    assert_eq!(rule(&SourceFile::sample("a.rs", "std::env::var(\"HOME\")")).len(), 1);
    let files = sources();
    enforce(
        files.iter().filter(|file| !matches!(file.member(), Some("runtime" | "testkit" | "torture"))),
        rule,
    );
}

#[test]
fn tests_wait_for_conditions_and_not_for_time() {
    let rule = |file: &SourceFile| match file.stem() {
        // A slow network is slow.
        "eventually" | "proxy" => vec![],
        _ => mentions(&file.text, &[concat!("sleep", "(")]),
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", concat!("tokio::time::sleep", "(second)"))).len(), 1);
    let files = files(&[".rs"]);
    enforce(
        files.iter().filter(|file| file.path.contains("/tests/") || file.member() == Some("testkit")),
        rule,
    );
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_to_do() {
    let unfinished = [
        concat!("#[", "ignore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("fn ", "test_"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    let rule = |file: &SourceFile| mentions(&file.text, &unfinished);
    assert_eq!(rule(&SourceFile::sample("a.rs", concat!("#[", "ignore]"))).len(), 1);
    enforce(&files(&[".rs"]), rule);
}
