//! Entry points for the fuzz targets (`crates/fuzz`): the parsers of untrusted input, as functions of plain
//! data. Production code does not use this module.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use crate::cursor::{self, CursorList};
use crate::http::event_fields;
use crate::http::fields::{self, JsonFields};
use crate::http::prefer::PreferHeader;
use crate::submit::event_draft::EventContent;
use crate::trace;

/// For each list that accepts `text` as a cursor: the cursor that it writes for the same position.
pub fn rewrite_cursor(text: &str) -> Vec<String> {
    let rewrite =
        |list: &CursorList| cursor::decode(*list, text).map(|position| cursor::encode(*list, position));
    CursorList::ALL.iter().filter_map(rewrite).collect()
}

/// The wait that a `Prefer` header is granted, and the `Preference-Applied` text; `None` where no wait was
/// requested.
pub fn grant_wait(value: &[u8], longest: Duration) -> Option<(Duration, String)> {
    let mut headers = HeaderMap::new();
    headers.insert("prefer", HeaderValue::from_bytes(value).ok()?);
    let prefer = PreferHeader::of(&headers).ok()?;
    let granted = prefer.granted_wait(None, longest)?;
    Some((granted, prefer.preference_applied(granted)?))
}

pub fn is_traceparent(text: &str) -> bool {
    trace::is_traceparent(text)
}

/// Name and payload of the body of one event.
pub fn read_event(text: &str) -> Option<(Name, RawJson)> {
    let mut fields = JsonFields::of(text, "").ok()?;
    let said = event_fields::read_event_content(&mut fields, 256 * 1024).ok()?;
    fields.finish_fields().ok()?;
    said.map(|EventContent { name, payload }| (name, payload))
}

/// The items of a batch.
pub fn cut_array(text: &str) -> Option<Vec<&str>> {
    fields::split_array(text, 1_000).ok()
}
