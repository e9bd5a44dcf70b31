//! A case that is not on the list never runs.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_conformance_case_is_listed() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let list = std::fs::read_to_string(suite.join("list.rs")).unwrap();
    let listed: BTreeSet<&str> = list.lines().flat_map(|line| line.trim().split([',', ' '])).collect();
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(&suite).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
        missing.extend(cases.filter(|case| !listed.contains(case)).map(str::to_owned));
    }
    assert!(missing.is_empty(), "not on the list: {missing:?}");
    assert!(listed.len() >= 149, "the list was not read: {listed:?}");
}
