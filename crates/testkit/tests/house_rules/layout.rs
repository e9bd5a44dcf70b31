//! Where things live: file sizes and names, crate directions, migrations in pairs.

use std::collections::BTreeSet;

use crate::tree::{SourceFile, enforce, files, root, sources};

const LONGEST: usize = 500;
const BUCKETS: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "manager", "managers"];

/// Which of our crates each crate may use. Data goes one way; nothing calls back up.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("store", &["core"]),
    ("stream", &["core"]),
    // Words and calls, no decisions.
    ("rpc", &["core", "store"]),
    ("store-postgres", &["core", "store"]),
    ("store-sqlite", &["core", "store"]),
    ("ingress", &["core", "rpc", "store", "stream"]),
    ("worker", &["core", "store", "stream"]),
    // It measures from outside; what it shares with the engine are the statements of the floor.
    ("bench", &["core", "store", "store-postgres", "store-sqlite"]),
    ("sim", &["core", "store", "stream", "ingress", "worker"]),
    ("testkit", &[]),
    // It breaks the binary from outside; what it shares with it are the names of bugs and how times are written.
    ("torture", &["core", "testkit"]),
    // The promises about parsers, wherever these are.
    ("fuzz", &["core", "ingress", "stream"]),
    // The one place that names backends.
    ("runtime", &["core", "store", "stream", "store-postgres", "store-sqlite", "ingress", "worker"]),
    // What users link: the engine comes in by the runtime, and by the seam for their actions.
    ("sdk", &["core", "runtime", "worker"]),
    ("app", &["bench", "core", "runtime", "store", "worker"]),
];

#[test]
fn every_source_file_opens_by_saying_why_it_exists() {
    let rule = |file: &SourceFile| match file.text.lines().next() {
        Some(line) if line.len() > 8 && line.starts_with("//! ") => vec![],
        Some(_) | None => vec!["does not open with `//!` and a sentence".into()],
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", "use std::fmt;\n")).len(), 1);
    enforce(&files(&[".rs"]), rule);
}

#[test]
fn no_file_outgrows_one_concept() {
    let rule = |file: &SourceFile| {
        let lines = file.text.lines().count();
        if lines > LONGEST {
            vec![format!("{lines} lines, more than {LONGEST}: split it by concept")]
        } else {
            vec![]
        }
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", &"\n".repeat(501))).len(), 1);
    enforce(&files(&[".rs"]), rule);
}

#[test]
fn no_module_is_a_bucket() {
    let rule = |file: &SourceFile| {
        let parts = file.path.trim_end_matches(".rs").split('/');
        parts
            .filter(|part| BUCKETS.contains(part))
            .map(|part| format!("`{part}` says nothing"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rule(&SourceFile::sample("crates/a/src/utils/b.rs", "")).len(), 1);
    enforce(&files(&[".rs"]), rule);
}

#[test]
fn tables_of_contents_hold_no_logic() {
    let rule = |file: &SourceFile| {
        let logic = ["fn ", "pub fn ", "pub(crate) fn ", "async fn ", "pub async fn ", "impl "];
        let is_logic = |line: &&str| logic.iter().any(|start| line.starts_with(start));
        file.production()
            .lines()
            .filter(is_logic)
            .map(|line| format!("holds logic: {line}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rule(&SourceFile::sample("lib.rs", "pub fn doit() {}")).len(), 1);
    let contents = sources();
    enforce(contents.iter().filter(|file| ["lib", "mod"].contains(&file.stem())), rule);
}

#[test]
fn crates_depend_only_downwards() {
    let rule = |file: &SourceFile| {
        let Some(member) = file.member() else { return vec![] };
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == member) else {
            return vec![format!("crate `{member}` is not in the table of this test")];
        };
        own_dependencies(&file.text)
            .into_iter()
            .filter(|used| !allowed.contains(&used.as_str()))
            .map(|used| format!("`{member}` may not depend on `{used}`"))
            .collect()
    };
    let upwards =
        "[dependencies]\nmillstream-worker.workspace = true\n[dev-dependencies]\nmillstream-testkit = 1\n";
    assert_eq!(rule(&SourceFile::sample("crates/ingress/Cargo.toml", upwards)).len(), 1);
    enforce(&files(&["Cargo.toml"]), rule);
}

/// Our crates under `[dependencies]`, without their prefix. What tests use is their own business.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("[").find(|part| part.starts_with("dependencies]")).unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("millstream-"))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn only_the_store_crates_know_a_database() {
    let rule = |file: &SourceFile| match file.member() {
        Some("store-postgres" | "store-sqlite" | "testkit" | "torture" | "bench") | None => vec![],
        Some(_) if file.text.contains("sqlx") => vec!["depends on sqlx".into()],
        Some(_) => vec![],
    };
    assert_eq!(rule(&SourceFile::sample("crates/worker/Cargo.toml", "sqlx.workspace = true")).len(), 1);
    enforce(&files(&["Cargo.toml"]), rule);
}

#[test]
fn migrations_come_in_pairs_of_the_same_name() {
    let names = |dialect: &str| -> BTreeSet<String> {
        let directory = root().join("migrations").join(dialect);
        let entries =
            std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let (postgres, sqlite) = (names("postgres"), names("sqlite"));
    assert!(!postgres.is_empty(), "there are migrations");
    assert_eq!(postgres, sqlite);
}
