//! The files of the repository, and a runner for rules.

use std::path::{Path, PathBuf};

/// Directories without files of ours.
const OUTSIDE: &[&str] = &["target", ".git", ".millstream", "node_modules"];

/// Crates that are no part of the engine.
const TEST_CRATES: &[&str] = &["bench", "torture", "sim", "testkit", "fuzz"];

pub(crate) struct SourceFile {
    /// Relative to the repository, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The text before its unit tests, without comments: what runs in production.
    pub(crate) fn production_code(&self) -> String {
        let code = self.text.split("#[cfg(test)]").next().unwrap_or_default();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    /// The lines of production code and its comments, with their numbers: test items are left out.
    pub(crate) fn production_lines(&self) -> Vec<(usize, &str)> {
        let (mut kept, mut depth, mut is_test) = (Vec::new(), 0_isize, false);
        for (index, line) in self.text.lines().enumerate() {
            let code = line.trim();
            is_test |= code.starts_with("#[cfg(test)]");
            if !is_test {
                kept.push((index + 1, line));
                continue;
            }
            depth += line.matches('{').count().cast_signed() - line.matches('}').count().cast_signed();
            if depth <= 0 && line.contains(['{', '}', ';']) && !code.starts_with("#[") {
                (is_test, depth) = (false, 0);
            }
        }
        kept
    }

    /// Production code of the engine: no tests, no conformance suites, no crates that measure or test it.
    pub(crate) fn is_engine_code(&self) -> bool {
        let is_test = self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("conformance");
        self.crate_name().is_some_and(|member| !TEST_CRATES.contains(&member)) && !is_test
    }

    /// The directory under `crates/`, if it is in one.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }
}

pub(crate) fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Every file with one of these endings.
pub(crate) fn files_ending_in(endings: &[&str]) -> Vec<SourceFile> {
    let (root, mut found) = (repository_root(), Vec::new());
    walk_directory(&root, &root, endings, &mut found);
    assert!(!found.is_empty(), "no file ends in {endings:?}: the walk is broken");
    found
}

/// The Rust sources that go into the crates, tests excluded.
pub(crate) fn crate_sources() -> Vec<SourceFile> {
    files_ending_in(&["rs"]).into_iter().filter(|file| file.path.contains("/src/")).collect()
}

fn walk_directory(root: &Path, directory: &Path, endings: &[&str], found: &mut Vec<SourceFile>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(directory).expect("read a directory").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_symlink() {
            // A link into another folder of the repository: the file is read there.
            continue;
        }
        if path.is_dir() {
            if !OUTSIDE.contains(&name) {
                walk_directory(root, &path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending))
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root).expect("a file of the repository").display().to_string();
            found.push(SourceFile { path, text });
        }
    }
}

/// Fails with every complaint at once.
#[track_caller]
pub(crate) fn enforce_rule<'a>(
    files: impl IntoIterator<Item = &'a SourceFile>,
    rule: impl Fn(&SourceFile) -> Vec<String>,
) {
    let complaints: Vec<String> = files
        .into_iter()
        .flat_map(|file| rule(file).into_iter().map(move |said| format!("{}: {said}", file.path)))
        .collect();
    assert!(complaints.is_empty(), "{} complaint(s):\n{}", complaints.len(), complaints.join("\n"));
}

/// The lines (numbered from one) that satisfy `is_bad`.
pub(crate) fn matching_lines(text: &str, is_bad: impl Fn(&str) -> Option<String>) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| is_bad(line).map(|said| format!("line {}: {said}", index + 1)))
        .collect()
}
