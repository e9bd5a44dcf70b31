//! Strict JSON field reader: reads a client's request field by field, without building a value tree.
//!
//! A JSON object is split into its fields, each value kept as raw text; a reader takes the fields that it
//! knows. Every field that is left over becomes an error with its name, and so does a duplicate field. All
//! problems of a request are collected, so that a caller can fix them at once.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::{InvalidJson, RawJson};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of one object, in document order.
#[derive(Debug)]
pub(crate) struct JsonFields<'a> {
    path: String,
    left: Vec<(Cow<'a, str>, &'a RawValue)>,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<'a> JsonFields<'a> {
    /// Splits one object. `path` is its position in the request, empty for the whole body.
    pub(crate) fn of(text: &'a str, path: &str) -> Result<Self, Vec<Fault>> {
        let RawObject(left) = serde_json::from_str(text)
            .map_err(|error| vec![Fault::new(path, format!("must be an object: {error}"))])?;
        Ok(Self { path: path.to_owned(), left, known: Vec::new(), faults: Vec::new() })
    }

    pub(crate) fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    pub(crate) fn add_fault(&mut self, field: &str, message: impl fmt::Display) {
        let path = self.path_of(field);
        self.faults.push(Fault::new(path, message.to_string()));
    }

    /// Whether a problem with this field has been recorded.
    pub(crate) fn has_fault(&self, field: &str) -> bool {
        let path = self.path_of(field);
        self.faults.iter().any(|fault| fault.path.starts_with(&path))
    }

    pub(crate) fn add_faults(&mut self, faults: Vec<Fault>) {
        self.faults.extend(faults);
    }

    /// The raw value of a field; `null` counts as absent. A duplicate field is left over and becomes a
    /// fault.
    pub(crate) fn take_field(&mut self, field: &'static str) -> Option<&'a str> {
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
    pub(crate) fn take_text(&mut self, field: &'static str) -> Option<Cow<'a, str>> {
        let value = self.take_field(field)?;
        match serde_json::from_str::<JsonString<'_>>(value) {
            Ok(JsonString(text)) => Some(text),
            Err(_) => {
                self.add_fault(field, "must be a string");
                None
            }
        }
    }

    /// A required string field.
    pub(crate) fn required_text(&mut self, field: &'static str) -> Option<Cow<'a, str>> {
        let before = self.faults.len();
        let text = self.take_text(field);
        if text.is_none() && self.faults.len() == before {
            self.add_fault(field, "is required");
        }
        text
    }

    /// A string field, parsed.
    pub(crate) fn parse_text<T, E: fmt::Display>(
        &mut self,
        field: &'static str,
        text: Option<Cow<'a, str>>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = text?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.add_fault(field, format!("{:?} {error}", clip_text(&text)));
                None
            }
        }
    }

    /// An integer within a range; `2.0` counts as an integer.
    pub(crate) fn whole_number(&mut self, field: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = parse_whole_number::<u32>(self.take_field(field)?);
        let (least, most) = (*range.start(), *range.end());
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(_) | None => {
                self.add_fault(field, format!("must be a whole number between {least} and {most}"));
                None
            }
        }
    }

    /// A field of any JSON, kept raw.
    pub(crate) fn raw_json(&mut self, field: &'static str) -> Option<RawJson> {
        let value = self.take_field(field)?;
        self.check_json(field, value)
    }

    /// Any JSON, where `null` is a value like any other.
    pub(crate) fn raw_json_or_null(&mut self, field: &'static str) -> Option<RawJson> {
        let value = self.take_any(field)?;
        self.check_json(field, value)
    }

    fn check_json(&mut self, field: &str, value: &str) -> Option<RawJson> {
        match RawJson::parse(value) {
            Ok(raw) => Some(raw),
            Err(error @ (InvalidJson::TooDeep | InvalidJson::Syntax(_))) => {
                self.add_fault(field, error);
                None
            }
        }
    }

    /// All problems, including unknown and duplicate fields.
    pub(crate) fn finish_fields(mut self) -> Result<(), Vec<Fault>> {
        for (name, _) in std::mem::take(&mut self.left) {
            let message = if self.known.contains(&name.as_ref()) {
                "is a duplicate field".to_owned()
            } else {
                format!("unknown field; known are {}", self.known.join(", "))
            };
            self.add_fault(clip_text(&name), message);
        }
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

/// Parses a whole number: JSON makes no difference between `2` and `2.0`.
pub(in crate::http) fn parse_whole_number<T: TryFrom<i64>>(text: &str) -> Option<T> {
    let number = text.parse::<i64>().ok().or_else(|| {
        let number = text.parse::<f64>().ok()?;
        // Larger whole numbers are not all exact as a double.
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        (number.fract() == 0.0 && number.abs() < 9.0e15).then_some(number as i64)
    })?;
    T::try_from(number).ok()
}

/// Truncates a text for display.
pub(crate) fn clip_text(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(at, _)| &text[..at])
}

/// The items of an array, each as raw text; reading stops beyond `limit` items.
pub(crate) fn split_array(text: &str, limit: usize) -> Result<Vec<&str>, ItemsError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut overflow = false;
    let seed = ArraySplitter { limit, overflow: &mut overflow };
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

struct ArraySplitter<'o> {
    limit: usize,
    overflow: &'o mut bool,
}

impl<'de> serde::de::DeserializeSeed<'de> for ArraySplitter<'_> {
    type Value = Vec<&'de str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ArraySplitter<'_> {
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
struct JsonString<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonString<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringVisitor;
        impl<'de> Visitor<'de> for StringVisitor {
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
        deserializer.deserialize_str(StringVisitor).map(JsonString)
    }
}

/// Upper bound of the fields of one object; a larger object is not a valid request.
const MAX_FIELDS: usize = 64;

struct RawObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawObjectVisitor;
        impl<'de> Visitor<'de> for RawObjectVisitor {
            type Value = RawObject<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(JsonString(name)) = map.next_key()? {
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(RawObject(fields))
            }
        }
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_named() {
        let mut fields = JsonFields::of(r#"{"name":"a","nmae":1,"payloda":{}}"#, "items[3]").unwrap();
        assert_eq!(fields.required_text("name").as_deref(), Some("a"));
        fields.raw_json("payload");
        let faults = fields.finish_fields().unwrap_err();
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["items[3].nmae", "items[3].payloda"]);
        assert!(faults[0].message.contains("known are name, payload"));
    }

    #[test]
    fn duplicate_field_is_an_error() {
        let mut fields = JsonFields::of(r#"{"name":"a","name":"b"}"#, "").unwrap();
        fields.required_text("name");
        assert_eq!(fields.finish_fields().unwrap_err()[0].message, "is a duplicate field");
    }

    #[test]
    fn missing_and_mistyped_fields_are_distinct() {
        let mut fields = JsonFields::of(r#"{"a":null,"b":7}"#, "").unwrap();
        assert!(fields.required_text("a").is_none());
        assert!(fields.required_text("b").is_none());
        let messages: Vec<_> =
            fields.finish_fields().unwrap_err().into_iter().map(|fault| fault.message).collect();
        assert_eq!(messages, ["is required", "must be a string"]);
    }

    #[test]
    fn whole_numbers_in_any_notation() {
        let read = |text: &str| {
            let body = format!(r#"{{"n":{text}}}"#);
            let mut fields = JsonFields::of(&body, "").unwrap();
            let number = fields.whole_number("n", 1..=1000);
            fields.finish_fields().map(|()| number).map_err(|faults| faults.len())
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
    fn escaped_json_fields_are_decoded() {
        let mut fields = JsonFields::of(r#"{"n\u0061me":"\u0061\n"}"#, "").unwrap();
        assert_eq!(fields.required_text("name").as_deref(), Some("a\n"));
    }

    #[test]
    fn array_split_is_bounded() {
        assert_eq!(split_array(" [1, {\"a\": 2}] ", 2), Ok(vec!["1", "{\"a\": 2}"]));
        assert_eq!(split_array("[1,2,3]", 2), Err(ItemsError::TooMany));
        assert!(matches!(split_array("[1,2", 9), Err(ItemsError::Syntax(_))));
        assert!(matches!(split_array("[1] x", 9), Err(ItemsError::Syntax(_))));
    }

    #[test]
    fn deep_nesting_is_rejected_without_recursion() {
        let deep = format!("{{\"payload\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let mut fields = JsonFields::of(&deep, "").unwrap();
        assert!(fields.raw_json("payload").is_none());
        assert!(fields.finish_fields().unwrap_err()[0].message.contains("64"));
    }
}
