//! Bodies of events: an accepted body yields a name and a payload that occurs unchanged in the body, and a
//! batch is split into substrings of itself.

use millstream_ingress::fuzzing::{cut_array, read_event};
use millstream_model::raw::RawJson;

pub(crate) const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"name\":",
    "\"payload\":",
    "\"pay\"",
    ",",
    ":",
    "null",
    "true",
    "1e999",
    "-0",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\\u006eame",
    " ",
    "\n",
    "\u{feff}",
    "1.0",
    "\"\"",
];

pub(crate) fn check_event_body(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some((name, payload)) = read_event(text) {
        assert!(!name.as_str().is_empty());
        assert!(payload == RawJson::null() || text.contains(payload.as_str()), "the payload is kept as sent");
        assert_eq!(RawJson::parse(payload.as_str()).as_ref(), Ok(&payload));
    }
    if let Some(items) = cut_array(text) {
        let joined = format!("[{}]", items.join(","));
        assert_eq!(cut_array(&joined).as_deref(), Some(&items[..]), "cut at the same places");
    }
}
