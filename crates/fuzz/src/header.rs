//! Headers: a granted wait is within its bound and is reported in an equivalent form; an accepted trace
//! context has the one valid form.

use std::time::Duration;

use millstream_ingress::fuzzing::{grant_wait, is_traceparent};

pub(crate) const WORDS: &[&str] = &[
    "wait=",
    "wait=5",
    "until=applied",
    "until=completed",
    "respond-async",
    ", ",
    ";",
    "\"",
    "=",
    "1e3",
    "-1",
    "NaN",
    "inf",
    "0.5",
    "86400",
    "00-",
    "ff-",
    "-01",
    "4bf92f3577b34da6a3ce929d0e0e4736",
    "00f067aa0ba902b7",
];

const LONGEST: Duration = Duration::from_secs(60);

pub(crate) fn check_header(bytes: &[u8]) {
    if let Some((granted, told)) = grant_wait(bytes, LONGEST) {
        assert!(granted <= LONGEST, "{granted:?}");
        let (again, told_again) = grant_wait(told.as_bytes(), LONGEST).expect("what we say can be asked for");
        assert_eq!((again, told_again), (granted, told));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if is_traceparent(text) {
        assert_eq!(text.len(), 55);
        assert!(
            text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
        );
    }
}
