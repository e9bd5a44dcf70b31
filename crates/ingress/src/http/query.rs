//! The query of a request, read by name; unknown parameters are errors with their names.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use millstream_model::problem::ValidationProblem as Fault;

use crate::cursor::{self, CursorList};
use crate::http::fields::clip_text;
use crate::refusal::RequestRefusal;

/// Parameters that had another name: (old name, current name).
const RENAMED: &[(&str, &str)] = &[("seen", "if_version")];

/// The query parameters; `left` are those not read yet.
#[derive(Debug)]
pub(crate) struct QueryParams {
    left: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefusal> {
        let Query(left) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| RequestRefusal::bad_request(format!("the query cannot be read: {error}")))?;
        Ok(Self { left, known: Vec::new(), faults: Vec::new() })
    }
}

impl QueryParams {
    pub(crate) fn take_param(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.left.iter().position(|(key, _)| key == name)?;
        Some(self.left.remove(at).1).filter(|value| !value.is_empty())
    }

    pub(crate) fn parse_param<T, E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.take_param(name)?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.add_fault(name, format!("{:?} {error}", clip_text(&value)));
                None
            }
        }
    }

    /// One value of a closed set.
    pub(crate) fn parse_word<T: Copy + std::fmt::Display>(
        &mut self,
        name: &'static str,
        all: &[T],
    ) -> Option<T> {
        self.parse_param(name, |text| {
            let found = all.iter().copied().find(|word| word.to_string() == text);
            found.ok_or_else(|| {
                let words: Vec<_> = all.iter().map(ToString::to_string).collect();
                format!("is not one of {}", words.join(", "))
            })
        })
    }

    /// `limit`, between 1 and `max`.
    pub(crate) fn parse_limit(&mut self, default: usize, max: usize) -> usize {
        self.parse_param("limit", |text| {
            text.parse()
                .ok()
                .filter(|limit| (1..=max).contains(limit))
                .ok_or_else(|| format!("is not a number between 1 and {max}"))
        })
        .unwrap_or(default)
    }

    /// The position in `cursor`.
    pub(crate) fn parse_cursor<T>(
        &mut self,
        list: CursorList,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.parse_param("cursor", |text| {
            cursor::decode(list, text)
                .and_then(|position| parse(&position))
                .ok_or("is not a cursor of this list; use next_cursor as it was given")
        })
    }

    fn add_fault(&mut self, name: &str, message: String) {
        self.faults.push(Fault::new(format!("query.{}", clip_text(name)), message));
    }

    /// The name that an old parameter of this path has now.
    fn current_name(&self, old: &str) -> Option<&'static str> {
        let renamed = RENAMED.iter().find(|(name, current)| *name == old && self.known.contains(current));
        renamed.map(|(_, current)| *current)
    }

    pub(crate) fn finish_params(mut self) -> Result<(), RequestRefusal> {
        for (name, _) in std::mem::take(&mut self.left) {
            let message = if self.known.contains(&name.as_str()) {
                "is a duplicate parameter".to_owned()
            } else if self.known.is_empty() {
                "unknown parameter; this path takes none".to_owned()
            } else if let Some(current) = self.current_name(&name) {
                format!("unknown parameter; its name is {current} now")
            } else {
                format!("unknown parameter; known are {}", self.known.join(", "))
            };
            self.add_fault(&name, message);
        }
        if self.faults.is_empty() { Ok(()) } else { Err(RequestRefusal::invalid(self.faults)) }
    }
}
