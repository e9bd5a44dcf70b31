//! `millstream bench` and the program that it starts: where it is looked for, and what it receives.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The binary alone in a directory, and a `PATH` of one empty directory.
struct LoneBinary {
    directory: TempDir,
    binary: PathBuf,
}

impl LoneBinary {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().canonicalize().unwrap().join("millstream");
        let built = env!("CARGO_BIN_EXE_millstream");
        // Another file system has no second name for the file.
        std::fs::hard_link(built, &binary).or_else(|_| std::fs::copy(built, &binary).map(drop)).unwrap();
        std::fs::create_dir(directory.path().join("path")).unwrap();
        Self { directory, binary }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env("PATH", self.directory.path().join("path")).output().unwrap()
    }

    /// A program in place of `millstream-bench` that prints its name and its arguments.
    fn put_program(&self, directory: &str, name: &str) {
        let file: &Path = &self.directory.path().join(directory).join("millstream-bench");
        std::fs::write(file, format!("#!/bin/sh\necho {name} \"$@\"\nexit 1\n")).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn missing_bench_program_is_explained() {
    let alone = LoneBinary::new();
    let output = alone.run(&["bench", "--embedded"]);
    assert_eq!(said(&output, 3), "");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = alone.binary.with_file_name("millstream-bench").display().to_string();
    for part in [place.as_str(), "PATH", "cargo build --release -p millstream-bench"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    for arguments in [&["bench", "--help"][..], &["bench", "graph", "-h"]] {
        let help = said(&alone.run(arguments), 0);
        for part in ["Measure throughput and latency", "millstream bench", "which is missing"] {
            assert!(help.contains(part), "{part}: {help}");
        }
    }
}

#[test]
fn bench_program_receives_arguments_and_engine() {
    let alone = LoneBinary::new();
    let engine = alone.binary.display().to_string();
    alone.put_program("path", "in-path");
    let output = alone.run(&["--json", "bench", "graph", "--embedded", "--smoke"]);
    assert_eq!(said(&output, 1), format!("in-path graph --embedded --smoke --json --binary {engine}"));
    alone.put_program(".", "beside");
    assert_eq!(said(&alone.run(&["bench", "--help"]), 1), "beside --help");
}
