//! Cursors: a list accepts exactly the cursors that it writes.

use millstream_ingress::fuzzing::rewrite_cursor;

pub(crate) const WORDS: &[&str] =
    &["64313a", "78313a", "65313a", "68313a", "61313a", "74313a", "2e", "3", "+", "A", "ff"];

pub(crate) fn check_cursor(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let written = rewrite_cursor(text);
    assert!(written.len() <= 1, "a cursor of several lists: {written:?}");
    for written in written {
        assert_eq!(written, text, "another text for the same place");
    }
}
