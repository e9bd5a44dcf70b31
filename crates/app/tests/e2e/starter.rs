//! `millstream new`: the generated project compiles.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run_millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream")).args(arguments).output().expect("run the binary")
}

/// The profile of this workspace, so that its compiled artifacts are reused.
const AS_HERE: &[&str] =
    &[r#"profile.dev.debug="line-tables-only""#, r#"profile.dev.package."*".debug=false"#];

/// Where the binary was built: `target/debug/millstream`.
fn target_directory() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_millstream")).ancestors().nth(2).unwrap()
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn new_refuses_nonempty_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    let refused = run_millstream(&["new", &directory.path().display().to_string()]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn new_project_type_checks() {
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().join("my-shop");
    let sdk = repository_root().join("crates/sdk");
    let made =
        run_millstream(&["new", &project.display().to_string(), "--sdk-path", &sdk.display().to_string()]);
    assert!(made.status.success(), "{made:?}");
    for file in ["README.md", "payment.yaml", ".gitignore", "src/main.rs"] {
        assert!(project.join(file).is_file(), "{file}");
    }
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-shop\""), "{manifest}");

    // The versions of this workspace, without network access.
    std::fs::copy(repository_root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--tests"])
        .args(AS_HERE.iter().flat_map(|setting| ["--config", setting]))
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", target_directory())
        .output()
        .expect("run cargo");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
