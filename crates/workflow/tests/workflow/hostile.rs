//! Fuzz-like properties: hostile texts give problems, never a crash.

use millstream_expr::{CelProgram, ExprVocabulary};
use millstream_model::document::SourceFormat;
use millstream_workflow::definition_parser::parse;
use millstream_workflow::machine::Machine;
use proptest::prelude::*;

const ORDER: &str = include_str!("../../../../examples/order.yaml");

/// Fragments that mean something to a YAML or CEL parser.
fn fragment() -> impl Strategy<Value = String> {
    let pieces = &[
        "a",
        "b.c",
        "context",
        "event",
        ".payload",
        "[0]",
        "['k']",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        "?",
        ",",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "<",
        " in ",
        "'x'",
        "\"y\"",
        "'''",
        "r'",
        "\\",
        "\\u0000",
        "0",
        "1",
        "9223372036854775808",
        "1e308",
        ".5",
        "0x",
        "1u",
        "has(",
        "size(",
        ".map(x, ",
        ".all(x, ",
        "x",
        "true",
        "null",
        "//",
        "\n",
        "  ",
        "- ",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "| ",
        "> ",
        "---",
        "...",
        "\t",
        "é",
        "🦀",
        "\u{0}",
        "\u{202e}",
        "${",
        "$${",
        "}",
    ][..];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_crashes_definition_parser(text in ".{0,400}") {
        for format in [SourceFormat::Json, SourceFormat::Yaml] {
            if let Err(problems) = parse(&text, format) {
                prop_assert!(!problems.0.is_empty());
            }
        }
    }

    #[test]
    fn random_tokens_never_crash_definition_parser(text in fragment()) {
        for format in [SourceFormat::Json, SourceFormat::Yaml] {
            if let Err(problems) = parse(&text, format) {
                prop_assert!(!problems.0.is_empty());
            }
        }
    }

    #[test]
    fn random_tokens_never_crash_expression_parser(text in fragment()) {
        if let Err(problems) = CelProgram::compile(&text, ExprVocabulary::Decision) {
            prop_assert!(problems.iter().all(|problem| !problem.is_empty() && !problem.contains('\n')));
        }
    }

    #[test]
    fn damaged_definition_never_crashes(at in 0usize..ORDER.len(), soup in fragment(), len in 0usize..60) {
        let (mut from, mut to) = (at, (at + len).min(ORDER.len()));
        while !ORDER.is_char_boundary(from) { from -= 1; }
        while !ORDER.is_char_boundary(to) { to += 1; }
        let text = format!("{}{soup}{}", &ORDER[..from], &ORDER[to..]);
        if let Ok(definition) = parse(&text, SourceFormat::Yaml) {
            prop_assert!(Machine::compile(definition).is_ok(), "accepted and then not compiled");
        }
    }
}

#[test]
fn deepest_expressions_fit_small_stack() {
    let nested = |inside: &str| format!("{}{inside}{}", "(1 + [".repeat(15), "][0])".repeat(15));
    let sources = [
        format!("{}1{}", "(".repeat(31), ")".repeat(31)),
        nested(&vec!["1"; 60].join(" + ")),
        vec!["true"; 60].join(" && "),
        format!("{}1", "true ? 1 : ".repeat(30)),
        format!("{}[1]{}", "[".repeat(30), "]".repeat(30)),
        format!("{}context.a{}", "size([".repeat(15), "])".repeat(15)),
        format!("[1]{}", ".map(x, x)".repeat(60)),
    ];
    let run = move || {
        for source in sources {
            let compiled = CelProgram::compile(&source, ExprVocabulary::Decision);
            assert!(compiled.is_ok() || source.contains("size"), "{source}: {compiled:?}");
        }
    };
    // Half of the stack of a worker thread.
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().unwrap();
}
