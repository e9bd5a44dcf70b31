//! Allow-lists: the violations that a rule still permits, as files beside the rules. A list may only shrink.
//!
//! A line is a key and the number of its violations. More of them fail the test, and so do fewer: the list
//! must then be rewritten. One command rewrites all lists from the present code:
//!
//! ```text
//! MILLSTREAM_HOUSE_RULES=rewrite cargo test -p millstream-testkit --test house_rules
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::repository_root;

const VARIABLE: &str = "MILLSTREAM_HOUSE_RULES";
const COMMAND: &str = "MILLSTREAM_HOUSE_RULES=rewrite cargo test -p millstream-testkit --test house_rules";

/// Fails unless the violations, listed by key, are exactly those of the list; or rewrites the list.
#[track_caller]
pub(crate) fn enforce_allow_list(list: &str, found: &BTreeMap<String, Vec<String>>) {
    let path = repository_root().join("crates/testkit/tests/house_rules").join(list);
    if std::env::var(VARIABLE).is_ok_and(|value| value == "rewrite") {
        std::fs::write(&path, list_text(found)).expect("write an allow-list");
        return;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let differences = differences(&parse_list(&text), found);
    assert!(
        differences.is_empty(),
        "{} difference(s) from {list}; it may only shrink, and this rewrites it: {COMMAND}\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn list_text(found: &BTreeMap<String, Vec<String>>) -> String {
    let mut text =
        format!("# Violations still allowed; the list may only shrink. Rewritten by:\n# {COMMAND}\n");
    for (key, places) in found {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{key} {}", places.len());
    }
    text
}

fn parse_list(text: &str) -> BTreeMap<String, usize> {
    let entries = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    entries
        .map(|line| {
            let (key, count) = line.rsplit_once(' ').expect("a key and a number");
            (key.to_owned(), count.parse().expect("a number"))
        })
        .collect()
}

fn differences(allowed: &BTreeMap<String, usize>, found: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let added = found.iter().filter_map(|(key, places)| {
        let (count, allowed) = (places.len(), allowed.get(key).copied().unwrap_or(0));
        let places = places.join("\n  ");
        (count > allowed).then(|| format!("{key}: {count} found, {allowed} allowed:\n  {places}"))
    });
    let removed = allowed.iter().filter_map(|(key, allowed)| {
        let count = found.get(key).map_or(0, Vec::len);
        (count < *allowed).then(|| format!("{key}: {count} found, {allowed} allowed: the entry is too large"))
    });
    added.chain(removed).collect()
}

#[test]
fn allow_lists_may_only_shrink() {
    let found = |count: usize| BTreeMap::from([("a b".to_owned(), vec!["here".to_owned(); count])]);
    let list = parse_list(&list_text(&found(2)));
    assert_eq!(list, BTreeMap::from([("a b".to_owned(), 2)]));
    assert_eq!(differences(&list, &found(2)), Vec::<String>::new());
    for count in [1, 3] {
        assert_eq!(differences(&list, &found(count)).len(), 1, "{count}");
    }
    assert_eq!(differences(&list, &BTreeMap::new()).len(), 1, "an entry that is not needed");
    assert_eq!(differences(&BTreeMap::new(), &found(2)).len(), 1, "a violation that is not listed");
}
