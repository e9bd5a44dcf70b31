//! The list of targets: a name, a function, and words of its grammar.

use crate::{cursor, definition, event_body, expression, header, stream_entry};

/// One parser and its guarantee.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Also the name of its corpus and of its libFuzzer binary.
    pub name: &'static str,
    /// Panics when the guarantee is violated.
    pub check: fn(&[u8]),
    /// Words that a mutation may insert besides random bytes.
    pub words: &'static [&'static str],
}

impl Target {
    pub const ALL: &'static [Target] = &[
        Target { name: "definition_yaml", check: definition::check_yaml, words: definition::WORDS },
        Target { name: "definition_json", check: definition::check_json, words: definition::WORDS },
        Target { name: "expression", check: expression::check_expression, words: expression::WORDS },
        Target { name: "stream_entry", check: stream_entry::check_stream_entry, words: stream_entry::WORDS },
        Target { name: "cursor", check: cursor::check_cursor, words: cursor::WORDS },
        Target { name: "header", check: header::check_header, words: header::WORDS },
        Target { name: "event_body", check: event_body::check_event_body, words: event_body::WORDS },
    ];

    pub fn named(name: &str) -> Option<&'static Target> {
        Self::ALL.iter().find(|target| target.name == name)
    }
}
