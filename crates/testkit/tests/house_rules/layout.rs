//! Layout rules: file sizes and names, crate directions, migrations in pairs.

use std::collections::BTreeSet;

use crate::tree::{SourceFile, crate_sources, enforce_rule, files_ending_in, repository_root};

const LONGEST: usize = 500;
const BUCKETS: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "manager", "managers"];

/// Which of our crates each crate may use. Data goes one way; nothing calls back up.
const MAY_USE: &[(&str, &[&str])] = &[
    // Pure: vocabulary and deciders. Devices and people know neither each other nor workflows.
    ("model", &[]),
    // The bodies of the HTTP API, for both of its ends.
    ("api", &["model"]),
    ("expr", &["model"]),
    ("devices", &["model"]),
    ("people", &["expr", "model"]),
    ("workflow", &["devices", "expr", "model", "people"]),
    ("store", &["devices", "model", "people", "workflow"]),
    ("store-memory", &["devices", "model", "people", "store", "workflow"]),
    ("store-conformance", &["devices", "model", "people", "store", "workflow"]),
    ("stream", &["model"]),
    ("stream-conformance", &["model", "stream"]),
    // Messages and calls, no decisions.
    ("rpc", &["expr", "model", "store", "workflow"]),
    ("store-postgres", &["devices", "model", "people", "store", "workflow"]),
    ("store-sqlite", &["devices", "model", "people", "store", "workflow"]),
    ("ingress", &["api", "devices", "expr", "model", "people", "rpc", "store", "stream", "workflow"]),
    ("worker", &["devices", "expr", "model", "people", "rpc", "store", "stream", "workflow"]),
    // It measures from outside; it shares with the engine the settings, the statements of the floor, and the
    // protocol of executors.
    (
        "bench",
        &["expr", "model", "people", "rpc", "runtime", "store", "store-postgres", "store-sqlite", "workflow"],
    ),
    (
        "sim",
        &[
            "devices",
            "model",
            "people",
            "workflow",
            "store",
            "store-memory",
            "stream",
            "ingress",
            "worker",
            "rpc",
        ],
    ),
    ("testkit", &[]),
    // It breaks the binary from outside; it shares the names of bugs and the notation of times.
    ("torture", &["devices", "model", "testkit"]),
    // The guarantees of the parsers, in whichever crate they are.
    ("fuzz", &["expr", "ingress", "model", "stream", "workflow"]),
    // The one place that names backends.
    (
        "runtime",
        &["devices", "model", "store", "stream", "store-postgres", "store-sqlite", "ingress", "worker"],
    ),
    // The crate that users link: the engine through the runtime, and the interface for their actions.
    ("sdk", &["api", "model", "runtime", "worker", "workflow"]),
    ("app", &["model", "runtime", "sdk", "store", "worker", "workflow"]),
];

/// Crates that hold test or benchmark code.
const TEST_OR_BENCHMARK: &[&str] = &[
    "bench",
    "fuzz",
    "sim",
    "store-conformance",
    "store-memory",
    "stream-conformance",
    "testkit",
    "torture",
];

/// Manifests that are no crate of the workspace: its table of versions, and the binaries of libFuzzer.
const NO_MEMBERS: &[&str] = &["Cargo.toml", "fuzz/Cargo.toml"];

#[test]
fn source_files_open_with_header() {
    let rule = |file: &SourceFile| match file.text.lines().next() {
        Some(line) if line.len() > 8 && line.starts_with("//! ") => vec![],
        Some(_) | None => vec!["does not open with `//!` and a sentence".into()],
    };
    assert_eq!(rule(&SourceFile::sample("a.rs", "use std::fmt;\n")).len(), 1);
    enforce_rule(&files_ending_in(&[".rs"]), rule);
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
    enforce_rule(&files_ending_in(&[".rs"]), rule);
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
    enforce_rule(&files_ending_in(&[".rs"]), rule);
}

#[test]
fn tables_of_contents_hold_no_logic() {
    let rule = |file: &SourceFile| {
        let logic = ["fn ", "pub fn ", "pub(crate) fn ", "async fn ", "pub async fn ", "impl "];
        let is_logic = |line: &&str| logic.iter().any(|start| line.starts_with(start));
        file.production_code()
            .lines()
            .filter(is_logic)
            .map(|line| format!("holds logic: {line}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rule(&SourceFile::sample("lib.rs", "pub fn doit() {}")).len(), 1);
    let contents = crate_sources();
    enforce_rule(contents.iter().filter(|file| ["lib", "mod"].contains(&file.stem())), rule);
}

#[test]
fn crates_depend_only_downwards() {
    let rule = |file: &SourceFile| {
        let Some(member) = file.crate_name() else { return vec![] };
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
    enforce_rule(&files_ending_in(&["Cargo.toml"]), rule);
}

/// Test and benchmark code is not linked into what is installed: only tests and the crates of this kind use it.
#[test]
fn production_crates_link_no_test_or_benchmark_code() {
    let rule = |file: &SourceFile| {
        if file.crate_name().is_some_and(|member| TEST_OR_BENCHMARK.contains(&member)) {
            return vec![];
        }
        own_dependencies(&file.text)
            .into_iter()
            .filter(|used| TEST_OR_BENCHMARK.contains(&used.as_str()))
            .map(|used| format!("`{used}` holds test or benchmark code: only a dev-dependency may name it"))
            .collect()
    };
    for (path, manifest, complaints) in [
        ("crates/app/Cargo.toml", "[dependencies]\nmillstream-bench.workspace = true\n", 1),
        (
            "crates/store/Cargo.toml",
            "[dependencies]\nx = { features = [\"a\"] }\nmillstream-store-memory = \"1\"\n",
            1,
        ),
        (
            "crates/stream/Cargo.toml",
            "[target.'cfg(unix)'.dependencies]\nmillstream-sim.workspace = true\n",
            1,
        ),
        ("crates/worker/Cargo.toml", "[build-dependencies.millstream-testkit]\nworkspace = true\n", 1),
        ("examples/worker/Cargo.toml", "[dependencies]\nmillstream-testkit.workspace = true\n", 1),
        ("crates/store/Cargo.toml", "[dev-dependencies]\nmillstream-store-memory.workspace = true\n", 0),
        ("crates/sim/Cargo.toml", "[dependencies]\nmillstream-store-memory.workspace = true\n", 0),
    ] {
        assert_eq!(rule(&SourceFile::sample(path, manifest)).len(), complaints, "{path}: {manifest}");
    }
    let members = files_ending_in(&["Cargo.toml"]).into_iter();
    let members: Vec<_> = members.filter(|file| !NO_MEMBERS.contains(&file.path.as_str())).collect();
    for name in TEST_OR_BENCHMARK {
        let path = format!("crates/{name}/Cargo.toml");
        assert!(members.iter().any(|file| file.path == path), "{path}: there is no such crate");
    }
    enforce_rule(&members, rule);
}

/// Our crates among the dependencies that are linked, without their prefix. What tests use is their own business.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let (mut found, mut is_linked) = (Vec::new(), false);
    for line in manifest.lines() {
        let name = match line.strip_prefix('[').map(|header| header.trim_end().trim_end_matches(']')) {
            Some(header) => {
                let (section, name) = header
                    .rsplit_once('.')
                    .filter(|(section, _)| section.ends_with("dependencies"))
                    .unwrap_or((header, ""));
                is_linked = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
                name
            }
            None => line,
        };
        if is_linked && let Some(name) = name.strip_prefix("millstream-") {
            found.push(name.split(['.', ' ', '=']).next().unwrap_or_default().to_owned());
        }
    }
    found
}

#[test]
fn only_store_crates_use_a_database() {
    let rule = |file: &SourceFile| match file.crate_name() {
        Some("store-postgres" | "store-sqlite" | "testkit" | "torture" | "bench") | None => vec![],
        Some(_) if file.text.contains("sqlx") => vec!["depends on sqlx".into()],
        Some(_) => vec![],
    };
    assert_eq!(rule(&SourceFile::sample("crates/worker/Cargo.toml", "sqlx.workspace = true")).len(), 1);
    enforce_rule(&files_ending_in(&["Cargo.toml"]), rule);
}

#[test]
fn migrations_come_in_same_named_pairs() {
    let names = |dialect: &str| -> BTreeSet<String> {
        let directory = repository_root().join(format!("crates/store-{dialect}/migrations"));
        let entries =
            std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let (postgres, sqlite) = (names("postgres"), names("sqlite"));
    assert!(!postgres.is_empty(), "there are migrations");
    assert_eq!(postgres, sqlite);
}

/// A published crate holds everything that it embeds. Files that people also read elsewhere (the default settings, the
/// examples) are links in the crate's `embedded` folder, which `cargo package` follows.
#[test]
fn crates_embed_only_their_own_files() {
    let rule = |file: &SourceFile| {
        let inside = file.path.split('/').count().saturating_sub(3);
        file.production_code()
            .lines()
            .filter_map(|line| line.split_once("include_str!(\"").or(line.split_once("include_bytes!(\"")))
            .filter(|(_, rest)| rest.split('/').take_while(|part| *part == "..").count() > inside)
            .map(|(_, rest)| format!("embeds a file outside of its crate: {rest}"))
            .collect::<Vec<_>>()
    };
    let outside = "const A: &str = include_str!(\"../../a.txt\");";
    assert_eq!(rule(&SourceFile::sample("crates/app/src/a.rs", outside)).len(), 1);
    assert_eq!(rule(&SourceFile::sample("crates/app/src/cmd/a.rs", outside)).len(), 0);
    let sources: Vec<_> = crate_sources().into_iter().filter(SourceFile::is_engine_code).collect();
    enforce_rule(&sources, rule);
}

/// The secrets of actions are for workers: an ingress must not have them in its environment.
#[test]
fn roles_read_only_their_environment_files() {
    for role in ["ingress", "worker"] {
        let unit = if role == "worker" { "worker@" } else { role };
        let path = repository_root().join(format!("deploy/millstream-{unit}.service"));
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("EnvironmentFile=")).collect();
        assert_eq!(
            read,
            ["/etc/millstream/env", &format!("-/etc/millstream/{role}.env")],
            "{}",
            path.display()
        );
    }
}

/// Links between documents must have a target file and section.
#[test]
fn links_between_documents_lead_somewhere() {
    let rule = |file: &SourceFile| {
        let links = file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let ours = links.filter(|link| !link.contains("://") && !link.contains(char::is_whitespace));
        ours.filter_map(|link| {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                repository_root().join(&file.path)
            } else {
                repository_root().join(&file.path).parent().unwrap().join(path)
            };
            if !target.exists() {
                return Some(format!("{link} is not there"));
            }
            if anchor.is_empty() || target.extension().is_none_or(|ending| ending != "md") {
                return None;
            }
            let text = std::fs::read_to_string(&target).unwrap();
            (!heading_anchors(&text).contains(anchor)).then(|| format!("{link}: there is no such section"))
        })
        .collect::<Vec<String>>()
    };
    let lost = SourceFile::sample("README.md", "[a](docs/none.md) [b](#none) [c](https://x.example/#y)");
    assert_eq!(rule(&lost).len(), 2);
    enforce_rule(&files_ending_in(&[".md"]), rule);
}

/// As links name them.
fn heading_anchors(markdown: &str) -> BTreeSet<String> {
    let titles =
        markdown.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    titles
        .map(|title| title.trim().to_lowercase().chars().filter(|c| kept(*c)).collect::<String>())
        .map(|title| title.replace(' ', "-"))
        .collect()
}

#[test]
fn compose_services_require_keys() {
    let text =
        std::fs::read_to_string(repository_root().join("docker-compose.yml")).expect("the compose file");
    let commands: Vec<_> = text.lines().filter(|line| line.trim_start().starts_with("command:")).collect();
    assert!(commands.iter().any(|line| line.contains("\"ingress\"")), "{commands:?}");
    assert!(commands.iter().any(|line| line.contains("\"keys\"") && line.contains("--once")), "{commands:?}");
    let open =
        text.lines().filter(|line| !line.trim_start().starts_with('#') && line.contains("insecure-no-auth"));
    assert_eq!(open.collect::<Vec<_>>(), Vec::<&str>::new());
}
