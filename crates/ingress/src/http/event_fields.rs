//! Reads the name and the payload of an event from the fields of a request.

use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use crate::http::fields::JsonFields;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::submit::event_draft::EventContent;

/// Takes `name` and `payload`; a payload that is too large is a problem of its own kind.
pub(crate) fn read_event_content(
    fields: &mut JsonFields<'_>,
    payload_limit: usize,
) -> Result<Option<EventContent>, RequestRefusal> {
    let name = fields.required_text("name");
    let name = fields.parse_text("name", name, |text| Name::parse(text));
    let payload = read_bounded(fields, "payload", payload_limit)?.unwrap_or_else(RawJson::null);
    Ok(name.map(|name| EventContent { name, payload }))
}

/// A raw field of at most `limit` bytes.
pub(in crate::http) fn read_bounded(
    fields: &mut JsonFields<'_>,
    field: &'static str,
    limit: usize,
) -> Result<Option<RawJson>, RequestRefusal> {
    let raw = fields.raw_json(field);
    match &raw {
        Some(raw) if raw.len() > limit => {
            let detail =
                format!("{} is {} bytes, at most {limit} are accepted", fields.path_of(field), raw.len());
            Err(RequestRefusal::new(RefusalKind::TooLarge, detail))
        }
        Some(_) | None => Ok(raw),
    }
}
