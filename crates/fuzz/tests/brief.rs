//! Every target over its corpus and over some thousand seeded mutations of it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use std::panic::catch_unwind;
use std::path::PathBuf;

use millstream_fuzz::Target;
use millstream_fuzz::mutate::{FuzzRandom, mutate_input};

/// Constant, so that every run is the same: `scripts/fuzz` searches for new inputs.
const SEED: u64 = 2026;

fn target_corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries =
        std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut found: Vec<_> = entries
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect();
    found.sort();
    assert!(found.len() > 2, "{} has a corpus", target.name);
    found
}

/// Checks one input; a violation prints it in a form that can be pasted into a file.
fn assert_holds(target: &Target, from: &str, input: &[u8]) {
    if catch_unwind(|| (target.check)(input)).is_err() {
        panic!("{}: {from} breaks the promise above: b\"{}\"", target.name, input.escape_ascii());
    }
}

fn brief(name: &str, rounds: usize) {
    let target = Target::named(name).unwrap();
    let corpus = target_corpus(target);
    for (file, input) in &corpus {
        assert_holds(target, file, input);
    }
    let seeds: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let mut chooser = FuzzRandom::seeded(SEED);
    for round in 0..rounds {
        let input = mutate_input(&mut chooser, &seeds, target.words);
        assert_holds(target, &format!("seed {SEED}, round {round}"), &input);
    }
}

#[test]
fn yaml_definition_round_trips_or_fails() {
    brief("definition_yaml", 4_000);
}

#[test]
fn json_definition_round_trips_or_fails() {
    brief("definition_json", 6_000);
}

#[test]
fn expression_is_deterministic_or_refused() {
    brief("expression", 20_000);
}

#[test]
fn stream_entry_round_trips_or_is_discarded() {
    brief("stream_entry", 20_000);
}

#[test]
fn cursor_is_canonical_or_refused() {
    brief("cursor", 50_000);
}

#[test]
fn header_is_equivalent_or_refused() {
    brief("header", 50_000);
}

#[test]
fn event_body_is_kept_or_refused() {
    brief("event_body", 50_000);
}

#[test]
fn fuzz_targets_have_test_and_binary() {
    let here = include_str!("brief.rs");
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    for Target { name, .. } in Target::ALL {
        assert!(here.contains(&format!("brief(\"{name}\"")), "{name} is not run in this file");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no binary {name}");
    }
}

#[test]
fn fuzz_inputs_follow_the_seed() {
    let seeds = [b"one".to_vec(), b"two".to_vec()];
    let inputs = |seed| -> Vec<Vec<u8>> {
        let mut chooser = FuzzRandom::seeded(seed);
        (0..100).map(|_| mutate_input(&mut chooser, &seeds, &["word"])).collect()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}
