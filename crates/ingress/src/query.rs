//! The query of a request, read by name; unknown parameters are errors with their names.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use millstream_core::problem::Problem as Fault;

use crate::cursor::{self, List};
use crate::fields::clip;
use crate::http::problem::Problem;

/// The query parameters; `left` are those not read yet.
#[derive(Debug)]
pub(crate) struct Params {
    left: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(left) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| Problem::bad_request(format!("the query cannot be read: {error}")))?;
        Ok(Self { left, known: Vec::new(), faults: Vec::new() })
    }
}

impl Params {
    pub(crate) fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.left.iter().position(|(key, _)| key == name)?;
        Some(self.left.remove(at).1).filter(|value| !value.is_empty())
    }

    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.take(name)?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, format!("{:?} {error}", clip(&value)));
                None
            }
        }
    }

    /// One value of a closed set.
    pub(crate) fn word<T: Copy + std::fmt::Display>(&mut self, name: &'static str, all: &[T]) -> Option<T> {
        self.parsed(name, |text| {
            let found = all.iter().copied().find(|word| word.to_string() == text);
            found.ok_or_else(|| {
                let words: Vec<_> = all.iter().map(ToString::to_string).collect();
                format!("is not one of {}", words.join(", "))
            })
        })
    }

    /// `limit`, between 1 and `max`.
    pub(crate) fn limit(&mut self, default: usize, max: usize) -> usize {
        self.parsed("limit", |text| {
            text.parse()
                .ok()
                .filter(|limit| (1..=max).contains(limit))
                .ok_or_else(|| format!("is not a number between 1 and {max}"))
        })
        .unwrap_or(default)
    }

    /// The position in `cursor`.
    pub(crate) fn cursor<T>(&mut self, list: List, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.parsed("cursor", |text| {
            cursor::decode(list, text)
                .and_then(|position| parse(&position))
                .ok_or("is not a cursor of this list; use next_cursor as it was given")
        })
    }

    fn fault(&mut self, name: &str, message: String) {
        self.faults.push(Fault::new(format!("query.{}", clip(name)), message));
    }

    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.left) {
            let message = if self.known.contains(&name.as_str()) {
                "is a duplicate parameter".to_owned()
            } else if self.known.is_empty() {
                "unknown parameter; this path takes none".to_owned()
            } else {
                format!("unknown parameter; known are {}", self.known.join(", "))
            };
            self.fault(&name, message);
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Problem::invalid(self.faults)) }
    }
}
