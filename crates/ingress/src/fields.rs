//! Strict JSON field reader: reads a client's request field by field, without building a value tree.
//!
//! A JSON object is split into its fields, each value kept as raw text; a reader takes the fields that it
//! knows. Every field that is left over becomes an error with its name, and so does a duplicate field. All
//! problems of a request are collected, so that a caller can fix them at once.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use millstream_core::problem::Problem as Fault;
use millstream_core::raw::{InvalidJson, RawJson};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of one object, in document order.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: String,
    left: Vec<(Cow<'a, str>, &'a RawValue)>,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    /// Splits one object. `path` is its position in the request, empty for the whole body.
    pub(crate) fn of(text: &'a str, path: &str) -> Result<Self, Vec<Fault>> {
        let Object(left) = serde_json::from_str(text)
            .map_err(|error| vec![Fault::new(path, format!("must be an object: {error}"))])?;
        Ok(Self { path: path.to_owned(), left, known: Vec::new(), faults: Vec::new() })
    }

    pub(crate) fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    pub(crate) fn fault(&mut self, field: &str, message: impl fmt::Display) {
        let path = self.path_of(field);
        self.faults.push(Fault::new(path, message.to_string()));
    }

    /// Whether a problem with this field has been recorded.
    pub(crate) fn has_fault(&self, field: &str) -> bool {
        let path = self.path_of(field);
        self.faults.iter().any(|fault| fault.path.starts_with(&path))
    }

    pub(crate) fn faults(&mut self, faults: Vec<Fault>) {
        self.faults.extend(faults);
    }

    /// The raw value of a field; `null` counts as absent. A duplicate field is left over and becomes a
    /// fault.
    pub(crate) fn take(&mut self, field: &'static str) -> Option<&'a str> {
        self.take_any(field).filter(|text| *text != "null")
    }

    /// The raw value of a field, which may be `null`.
    fn take_any(&mut self, field: &'static str) -> Option<&'a str> {
        self.known.push(field);
        let at = self.left.iter().position(|(name, _)| name == field)?;
        let (_, value) = self.left.remove(at);
        Some(value.get())
    }

    /// A string field.
    pub(crate) fn text(&mut self, field: &'static str) -> Option<Cow<'a, str>> {
        let value = self.take(field)?;
        match serde_json::from_str::<Text<'_>>(value) {
            Ok(Text(text)) => Some(text),
            Err(_) => {
                self.fault(field, "must be a string");
                None
            }
        }
    }

    /// A required string field.
    pub(crate) fn required(&mut self, field: &'static str) -> Option<Cow<'a, str>> {
        let before = self.faults.len();
        let text = self.text(field);
        if text.is_none() && self.faults.len() == before {
            self.fault(field, "is required");
        }
        text
    }

    /// A string field, parsed.
    pub(crate) fn parsed<T, E: fmt::Display>(
        &mut self,
        field: &'static str,
        text: Option<Cow<'a, str>>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = text?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(field, format!("{:?} {error}", clip(&text)));
                None
            }
        }
    }

    /// An integer within a range; `2.0` counts as an integer.
    pub(crate) fn whole(&mut self, field: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.take(field)?.parse::<f64>().ok();
        let (least, most) = (*range.start(), *range.end());
        match number {
            Some(number)
                if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "within a range of u32"
                )]
                Some(number as u32)
            }
            Some(_) | None => {
                self.fault(field, format!("must be a whole number between {least} and {most}"));
                None
            }
        }
    }

    /// A field of any JSON, kept raw.
    pub(crate) fn raw(&mut self, field: &'static str) -> Option<RawJson> {
        let value = self.take(field)?;
        self.checked(field, value)
    }

    /// Any JSON, where `null` is a value like any other.
    pub(crate) fn raw_or_null(&mut self, field: &'static str) -> Option<RawJson> {
        let value = self.take_any(field)?;
        self.checked(field, value)
    }

    fn checked(&mut self, field: &str, value: &str) -> Option<RawJson> {
        match RawJson::parse(value) {
            Ok(raw) => Some(raw),
            Err(error @ (InvalidJson::TooDeep | InvalidJson::Syntax(_))) => {
                self.fault(field, error);
                None
            }
        }
    }

    /// All problems, including unknown and duplicate fields.
    pub(crate) fn finish(mut self) -> Result<(), Vec<Fault>> {
        for (name, _) in std::mem::take(&mut self.left) {
            let message = if self.known.contains(&name.as_ref()) {
                "is a duplicate field".to_owned()
            } else {
                format!("unknown field; known are {}", self.known.join(", "))
            };
            self.fault(clip(&name), message);
        }
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

/// Truncates a text for display.
pub(crate) fn clip(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(at, _)| &text[..at])
}

/// The items of an array, each as raw text; reading stops beyond `limit` items.
pub(crate) fn items(text: &str, limit: usize) -> Result<Vec<&str>, ItemsError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut overflow = false;
    let seed = Items { limit, overflow: &mut overflow };
    let items = serde::de::DeserializeSeed::deserialize(seed, &mut reader);
    match items {
        Ok(items) => match reader.end() {
            Ok(()) => Ok(items),
            Err(error) => Err(ItemsError::Syntax(error.to_string())),
        },
        Err(_) if overflow => Err(ItemsError::TooMany),
        Err(error) => Err(ItemsError::Syntax(error.to_string())),
    }
}

/// Why an array was not split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ItemsError {
    Syntax(String),
    TooMany,
}

struct Items<'o> {
    limit: usize,
    overflow: &'o mut bool,
}

impl<'de> serde::de::DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<&'de str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<&RawValue>()? {
            if items.len() == self.limit {
                *self.overflow = true;
                return Err(A::Error::custom("too many items"));
            }
            items.push(item.get());
        }
        Ok(items)
    }
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Str;
        impl<'de> Visitor<'de> for Str {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Str).map(Text)
    }
}

/// Upper bound of the fields of one object; a larger object is not a valid request.
const MAX_FIELDS: usize = 64;

struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unknown_field_is_named() {
        let mut fields = Fields::of(r#"{"name":"a","nmae":1,"payloda":{}}"#, "items[3]").unwrap();
        assert_eq!(fields.required("name").as_deref(), Some("a"));
        fields.raw("payload");
        let faults = fields.finish().unwrap_err();
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["items[3].nmae", "items[3].payloda"]);
        assert!(faults[0].message.contains("known are name, payload"));
    }

    #[test]
    fn a_field_given_twice_is_an_error_and_not_a_choice() {
        let mut fields = Fields::of(r#"{"name":"a","name":"b"}"#, "").unwrap();
        fields.required("name");
        assert_eq!(fields.finish().unwrap_err()[0].message, "is a duplicate field");
    }

    #[test]
    fn missing_null_and_wrongly_typed_fields_are_told_apart() {
        let mut fields = Fields::of(r#"{"a":null,"b":7}"#, "").unwrap();
        assert!(fields.required("a").is_none());
        assert!(fields.required("b").is_none());
        let messages: Vec<_> = fields.finish().unwrap_err().into_iter().map(|fault| fault.message).collect();
        assert_eq!(messages, ["is required", "must be a string"]);
    }

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        let read = |text: &str| {
            let body = format!(r#"{{"n":{text}}}"#);
            let mut fields = Fields::of(&body, "").unwrap();
            let number = fields.whole("n", 1..=1000);
            fields.finish().map(|()| number).map_err(|faults| faults.len())
        };
        for (text, number) in [("1", 1), ("1000", 1000), ("10.0", 10), ("1e3", 1000)] {
            assert_eq!(read(text), Ok(Some(number)), "{text}");
        }
        assert_eq!(read("null"), Ok(None));
        for text in ["0", "1001", "1.5", "-1", "1e400", "\"2\"", "true", "[]"] {
            assert_eq!(read(text), Err(1), "{text}");
        }
    }

    #[test]
    fn escapes_in_names_and_values_are_read() {
        let mut fields = Fields::of(r#"{"n\u0061me":"\u0061\n"}"#, "").unwrap();
        assert_eq!(fields.required("name").as_deref(), Some("a\n"));
    }

    #[test]
    fn an_array_is_cut_into_raw_items_and_no_more_than_allowed() {
        assert_eq!(items(" [1, {\"a\": 2}] ", 2), Ok(vec!["1", "{\"a\": 2}"]));
        assert_eq!(items("[1,2,3]", 2), Err(ItemsError::TooMany));
        assert!(matches!(items("[1,2", 9), Err(ItemsError::Syntax(_))));
        assert!(matches!(items("[1] x", 9), Err(ItemsError::Syntax(_))));
    }

    #[test]
    fn hostile_nesting_neither_recurses_nor_passes() {
        let deep = format!("{{\"payload\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let mut fields = Fields::of(&deep, "").unwrap();
        assert!(fields.raw("payload").is_none());
        assert!(fields.finish().unwrap_err()[0].message.contains("64"));
    }
}
