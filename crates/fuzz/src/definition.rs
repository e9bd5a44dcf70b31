//! Definitions: an accepted definition compiles, and its canonical text is parsed back to an equal
//! definition.
//!
//! The store keeps only the canonical text. An accepted definition that cannot be parsed back would fail in
//! every start and every worker.

use millstream_model::document::SourceFormat;
use millstream_workflow::definition::limits::MAX_PROBLEMS;
use millstream_workflow::definition_parser::parse;
use millstream_workflow::machine::Machine;

pub(crate) const WORDS: &[&str] = &[
    "name: ",
    "initial: ",
    "states:",
    "on:",
    "after:",
    "defer: [",
    "final: true",
    "failed",
    "actions:",
    "http:",
    "log: ",
    "noop: ",
    "needs: [",
    "retry: ",
    "attempts: ",
    "backoff: ",
    "timeout: ",
    "30s",
    "1h30m",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "| ",
    "> ",
    "---\n",
    "...\n",
    "\n  ",
    "\n    ",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "\\u0000",
    "\u{feff}",
    "null",
    "true",
    "~",
    "0x1f",
    "1e400",
    ".inf",
    "9223372036854775808",
    "-0.0",
    "event.payload.x",
    "context.n + 1",
    "${",
    "}}",
    "é",
    "🦀",
    "\u{85}",
    "\u{2028}",
    "millstream.x",
];

pub(crate) fn check_yaml(bytes: &[u8]) {
    check_definition(bytes, SourceFormat::Yaml);
}

pub(crate) fn check_json(bytes: &[u8]) {
    check_definition(bytes, SourceFormat::Json);
}

fn check_definition(bytes: &[u8], format: SourceFormat) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse(text, format) {
        Ok(definition) => {
            let (canonical, checksum) = (definition.canonical_json(), definition.checksum());
            let again = parse(&canonical, SourceFormat::Json)
                .unwrap_or_else(|problems| panic!("accepted, and not read back: {problems}\n{canonical}"));
            assert_eq!(again.canonical_json(), canonical, "the canonical text has a canonical text");
            assert_eq!(again.checksum(), checksum);
            assert!(again == definition, "another definition was read back:\n{canonical}");
            let compiled = Machine::compile(definition);
            assert!(compiled.is_ok(), "accepted, and not compiled: {compiled:?}");
        }
        Err(problems) => {
            assert!((1..=MAX_PROBLEMS + 1).contains(&problems.0.len()), "{} problems", problems.0.len());
            for problem in &problems.0 {
                assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem:?}");
            }
        }
    }
}
