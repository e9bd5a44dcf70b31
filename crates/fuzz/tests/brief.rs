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
use millstream_fuzz::mutate::{Chooser, mutate};

/// Constant, so that every run is the same: `scripts/fuzz` searches for new inputs.
const SEED: u64 = 2026;

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
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
fn hold(target: &Target, from: &str, input: &[u8]) {
    if catch_unwind(|| (target.check)(input)).is_err() {
        panic!("{}: {from} breaks the promise above: b\"{}\"", target.name, input.escape_ascii());
    }
}

fn brief(name: &str, rounds: usize) {
    let target = Target::named(name).unwrap();
    let corpus = corpus(target);
    for (file, input) in &corpus {
        hold(target, file, input);
    }
    let seeds: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let mut chooser = Chooser::seeded(SEED);
    for round in 0..rounds {
        let input = mutate(&mut chooser, &seeds, target.words);
        hold(target, &format!("seed {SEED}, round {round}"), &input);
    }
}

#[test]
fn a_yaml_definition_is_refused_or_read_back_as_itself() {
    brief("definition_yaml", 4_000);
}

#[test]
fn a_json_definition_is_refused_or_read_back_as_itself() {
    brief("definition_json", 6_000);
}

#[test]
fn an_expression_is_refused_or_gives_the_same_json_every_time() {
    brief("expression", 20_000);
}

#[test]
fn a_stream_entry_is_discarded_or_written_as_it_was_read() {
    brief("stream_entry", 20_000);
}

#[test]
fn a_cursor_is_refused_or_the_one_text_for_its_place() {
    brief("cursor", 50_000);
}

#[test]
fn a_header_is_refused_or_means_what_is_said_back() {
    brief("header", 50_000);
}

#[test]
fn an_event_body_is_refused_or_kept_as_it_was_sent() {
    brief("event_body", 50_000);
}

#[test]
fn every_target_is_run_here_and_has_its_own_binary() {
    let here = include_str!("brief.rs");
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    for Target { name, .. } in Target::ALL {
        assert!(here.contains(&format!("brief(\"{name}\"")), "{name} is not run in this file");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no binary {name}");
    }
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let seeds = [b"one".to_vec(), b"two".to_vec()];
    let inputs = |seed| -> Vec<Vec<u8>> {
        let mut chooser = Chooser::seeded(seed);
        (0..100).map(|_| mutate(&mut chooser, &seeds, &["word"])).collect()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}
