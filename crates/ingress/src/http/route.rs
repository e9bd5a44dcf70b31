//! A route and its documentation, in one value.
//!
//! The router and the OpenAPI document are both made from the same list of these, so that neither can
//! have a path that the other does not know.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};
use millstream_core::permission::Permission;

use crate::door::Door;
use crate::quotas::RepeatAnswer;

/// One method on one path.
pub(crate) struct Route {
    pub(crate) handler: MethodRouter<Arc<Door>>,
    pub(crate) doc: Operation,
}

/// What the OpenAPI document says about a route. Schema names refer to `openapi/schemas.json`.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) needs: Option<Permission>,
    /// Name and schema.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) headers: &'static [&'static str],
    /// Media type and schema.
    pub(crate) bodies: Vec<(&'static str, &'static str)>,
    /// Whether a request without a body is fine.
    pub(crate) body_use: BodyUse,
    /// Status, media type, schema, meaning.
    pub(crate) answers: Vec<(u16, &'static str, &'static str, &'static str)>,
    /// Statuses of problems that are particular to this call.
    pub(crate) problems: &'static [u16],
    /// Whether its good answers name where to look next.
    pub(crate) located: Located,
    /// Which calls go on from a good answer.
    pub(crate) links: Vec<Link>,
}

/// Where a good answer leads: an operation, and its path parameters with the fields they come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) operation: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

/// Whether `Location` is among the headers of a good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Located {
    Never,
    Always,
    /// Of one thing; an array of them has no address.
    OfOne,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    Required,
    Optional,
}

impl Operation {
    /// A route that documents the header answers repeats by it.
    pub(crate) fn repeats(&self) -> RepeatAnswer {
        if self.headers.contains(&"Idempotency-Key") { RepeatAnswer::ByKey } else { RepeatAnswer::None }
    }
}

impl Route {
    pub(crate) fn get<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Door>>,
        T: 'static,
    {
        Self { handler: get(handler), doc: Operation::new("get", path, id) }
    }

    pub(crate) fn post<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Door>>,
        T: 'static,
    {
        Self { handler: post(handler), doc: Operation::new("post", path, id) }
    }

    pub(crate) fn put<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Door>>,
        T: 'static,
    {
        Self { handler: put(handler), doc: Operation::new("put", path, id) }
    }

    pub(crate) fn delete<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Door>>,
        T: 'static,
    {
        Self { handler: delete(handler), doc: Operation::new("delete", path, id) }
    }

    pub(crate) fn summary(mut self, summary: &'static str) -> Self {
        self.doc.summary = summary;
        self
    }

    /// What the key of the caller must permit; the router checks it. Without this the route needs no key.
    pub(crate) fn needs(mut self, permission: Permission) -> Self {
        self.doc.needs = Some(permission);
        self
    }

    pub(crate) fn query(mut self, parameters: &'static [(&'static str, &'static str)]) -> Self {
        self.doc.query = parameters;
        self
    }

    pub(crate) fn headers(mut self, names: &'static [&'static str]) -> Self {
        self.doc.headers = names;
        self
    }

    pub(crate) fn body(mut self, media: &'static str, schema: &'static str) -> Self {
        self.doc.bodies.push((media, schema));
        self
    }

    pub(crate) fn body_optional(mut self) -> Self {
        self.doc.body_use = BodyUse::Optional;
        self
    }

    pub(crate) fn answer(mut self, status: u16, schema: &'static str, meaning: &'static str) -> Self {
        self.doc.answers.push((status, "application/json", schema, meaning));
        self
    }

    pub(crate) fn answer_in(
        mut self,
        status: u16,
        media: &'static str,
        schema: &'static str,
        meaning: &'static str,
    ) -> Self {
        self.doc.answers.push((status, media, schema, meaning));
        self
    }

    pub(crate) fn problems(mut self, statuses: &'static [u16]) -> Self {
        self.doc.problems = statuses;
        self
    }

    pub(crate) fn located(mut self, located: Located) -> Self {
        self.doc.located = located;
        self
    }

    /// A call that goes on from here with these fields of the answer as its path parameters.
    pub(crate) fn leads_to(mut self, operation: &'static str, parameters: &'static [&'static str]) -> Self {
        self.doc.links.push(Link { operation, parameters });
        self
    }
}

impl Operation {
    fn new(method: &'static str, path: &'static str, id: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            summary: "",
            needs: None,
            query: &[],
            headers: &[],
            bodies: Vec::new(),
            body_use: BodyUse::Required,
            answers: Vec::new(),
            problems: &[],
            located: Located::Never,
            links: Vec::new(),
        }
    }
}
