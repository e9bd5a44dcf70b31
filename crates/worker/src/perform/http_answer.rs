//! Interpretation of an HTTP answer: success, transient failure (retry), or permanent failure.
//!
//! 2xx succeeds, or the statuses that the action expects. 408, 425, 429 and 5xx are transient, with the delay
//! of `Retry-After`. All others are permanent. The result of a success is `{status, headers, body}`: the
//! headers that describe the body, and the body as JSON if it is declared as JSON or looks like it, else as
//! text.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::definition::StatusPattern;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, ETAG, HeaderMap, LAST_MODIFIED, LOCATION, RETRY_AFTER};
use serde::Serialize;

/// Upper bound on the excerpt of an unsuccessful answer in the error message. Secrets are removed before the
/// cut: the first half of a cut secret would not be recognised.
const SHOWN: usize = 500;
/// Upper bound on any other message.
const LONGEST_MESSAGE: usize = 4 * 1024;
/// Minimum read of an unsuccessful answer.
pub(crate) const LOOKED_AT: usize = 8 * 1024;

#[derive(Serialize)]
struct HttpResult<'a> {
    status: u16,
    headers: BTreeMap<&'a str, &'a str>,
    body: RawJson,
}

/// Whether a status is a success: 2xx, unless the action expects others.
pub(crate) fn is_expected(expect: &[StatusPattern], status: StatusCode) -> bool {
    if expect.is_empty() {
        return status.is_success();
    }
    expect.iter().any(|pattern| pattern.matches_status(status.as_u16()))
}

/// Whether the action names this status: then a redirect is an answer.
pub(crate) fn is_named(expect: &[StatusPattern], status: StatusCode) -> bool {
    !expect.is_empty() && is_expected(expect, status)
}

pub(crate) fn judge_answer(
    expect: &[StatusPattern],
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    asked: Timestamp,
) -> AttemptOutcome {
    if is_expected(expect, status) {
        let kept = [CONTENT_TYPE, ETAG, LAST_MODIFIED, LOCATION];
        let kept = headers
            .iter()
            .filter(|(name, _)| kept.contains(name))
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let result = HttpResult { status: status.as_u16(), headers: kept, body: body_json(headers, body) };
        return AttemptOutcome::Success { result: RawJson::from_value(&result) };
    }
    let shown = String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)]);
    let message =
        if shown.is_empty() { format!("answered {status}") } else { format!("answered {status}: {shown}") };
    let error = ActionFailure { class: ErrorClass::Status, message, status: Some(status.as_u16()) };
    if is_transient(status) {
        AttemptOutcome::Transient { error, retry_after: retry_after(headers, asked) }
    } else {
        AttemptOutcome::Permanent { error }
    }
}

/// The error as stored with the action and sent in events.
pub(crate) fn shorten_error(error: ActionFailure) -> ActionFailure {
    let longest = if error.status.is_some() { SHOWN + "answered 400: ".len() } else { LONGEST_MESSAGE };
    match error.message.char_indices().nth(longest) {
        Some((end, _)) => ActionFailure { message: format!("{}…", &error.message[..end]), ..error },
        None => error,
    }
}

fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error()
}

fn body_json(headers: &HeaderMap, body: &[u8]) -> RawJson {
    if body.is_empty() {
        return RawJson::null();
    }
    let text = String::from_utf8_lossy(body);
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let may_be_json = kind.is_none_or(|kind| kind.to_ascii_lowercase().contains("json"));
    if may_be_json && let Ok(json) = RawJson::parse(&text) {
        return json;
    }
    RawJson::from_value(&text)
}

/// Seconds, or a date; a date is compared with the answer's own `Date` if it has one, so that the difference
/// between two clocks does not matter, and else with the time of the request.
fn retry_after(headers: &HeaderMap, asked: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let until = http_date(text)?;
    let answered = headers.get(DATE).and_then(|date| http_date(date.to_str().ok()?));
    Some(until.since(answered.unwrap_or(asked)))
}

fn http_date(text: &str) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc);
    Some(Timestamp::from_millis(time.timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn with(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn judged(status: u16, headers: &HeaderMap) -> AttemptOutcome {
        judge_answer(&[], StatusCode::from_u16(status).unwrap(), headers, b"x", Timestamp::from_millis(0))
    }

    #[test]
    fn http_statuses_map_to_outcomes() {
        let none = HeaderMap::new();
        for status in [200, 201, 202, 204, 299] {
            assert!(matches!(judged(status, &none), AttemptOutcome::Success { .. }), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            assert!(matches!(judged(status, &none), AttemptOutcome::Transient { .. }), "{status}");
        }
        for status in [304, 400, 401, 403, 404, 409, 410, 422] {
            assert!(matches!(judged(status, &none), AttemptOutcome::Permanent { .. }), "{status}");
        }
    }

    #[test]
    fn retry_after_accepts_seconds_and_date() {
        let asked = http_date("Sun, 06 Nov 1994 08:49:30 GMT").unwrap();
        let after = |headers: &[(&'static str, &'static str)]| retry_after(&with(headers), asked);
        assert_eq!(after(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        let until = ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
        let dated = [until, ("date", "Sun, 06 Nov 1994 08:49:07 GMT")];
        assert_eq!(after(&dated), Some(Duration::from_secs(30)));
        assert_eq!(after(&[until]), Some(Duration::from_secs(7)), "an answer without a date of its own");
        assert_eq!(after(&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after", "soon")]), None);
    }

    #[test]
    fn error_message_is_cut_to_limit() {
        let error =
            |status| ActionFailure { class: ErrorClass::Status, message: "ü".repeat(100_000), status };
        let kept = |status| shorten_error(error(status)).message.chars().count();
        assert_eq!((kept(None), kept(Some(500))), (LONGEST_MESSAGE + 1, SHOWN + 15));
    }

    #[test]
    fn http_body_is_json_or_text() {
        let body = |kind, bytes: &[u8]| body_json(&with(&[("content-type", kind)]), bytes).to_string();
        assert_eq!(body("application/json; charset=utf-8", br#"{"a":1.50}"#), r#"{"a":1.50}"#);
        assert_eq!(body("application/json", b"{broken"), r#""{broken""#);
        assert_eq!(body("text/plain", b"17"), r#""17""#);
        assert_eq!(body("text/plain", b""), "null");
        assert_eq!(body_json(&HeaderMap::new(), b"17").to_string(), "17");
    }
}
