//! A route and its documentation in one value.
//!
//! The router and the OpenAPI document are both built from the same list of routes, so that neither has a
//! path that the other lacks.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};
use millstream_api::schema::{JsonSchema, SchemaOf, schema_of};
use millstream_model::permission::Permission;

use super::api_tag::ApiTag;
use crate::quotas::RepeatAnswer;
use crate::state::IngressState;

/// The routes of one part of the API. A route is served only as a member of a part, so each has a tag.
pub(crate) struct ApiPart {
    pub(crate) tag: ApiTag,
    pub(crate) routes: Vec<Route>,
}

impl ApiPart {
    pub(crate) fn of<const N: usize>(tag: ApiTag, routes: [Vec<Route>; N]) -> Self {
        Self { tag, routes: routes.into_iter().flatten().collect() }
    }
}

/// One method on one path.
pub(crate) struct Route {
    pub(crate) handler: MethodRouter<Arc<IngressState>>,
    pub(crate) doc: RouteOperation,
}

/// What the OpenAPI document says about a route. Names of schemas of parameters refer to the scalars of
/// `millstream_api`.
#[derive(Debug, Clone)]
pub(crate) struct RouteOperation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) needs: Option<Permission>,
    /// Name and schema.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) headers: &'static [&'static str],
    /// Media type and schema.
    pub(crate) bodies: Vec<(&'static str, SchemaOf)>,
    /// Whether the body may be missing.
    pub(crate) body_use: BodyUse,
    pub(crate) answers: Vec<OperationAnswer>,
    /// Problem statuses that are specific to this operation.
    pub(crate) problems: &'static [u16],
    /// Whether a successful answer has a `Location` header.
    pub(crate) located: LocationHeader,
    /// OpenAPI links: operations that follow a successful answer.
    pub(crate) links: Vec<OperationLink>,
}

/// A successful answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationAnswer {
    pub(crate) status: u16,
    pub(crate) meaning: &'static str,
    /// Media type and schema of the body, if it has one.
    pub(crate) body: Option<(&'static str, SchemaOf)>,
}

/// An OpenAPI link: the target operation, and its path parameters with the fields of the answer that fill
/// them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationLink {
    pub(crate) operation: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

/// Whether a successful answer has a `Location` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocationHeader {
    Never,
    Always,
    /// Only for a single resource; an array of them has no address.
    OfOne,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    Required,
    Optional,
}

impl RouteOperation {
    /// A route that documents the `Idempotency-Key` header answers a repeat with the original answer.
    pub(crate) fn repeats(&self) -> RepeatAnswer {
        if self.headers.contains(&"Idempotency-Key") { RepeatAnswer::ByKey } else { RepeatAnswer::None }
    }
}

impl Route {
    pub(crate) fn get<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<IngressState>>,
        T: 'static,
    {
        Self { handler: get(handler), doc: RouteOperation::new("get", path, id) }
    }

    pub(crate) fn post<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<IngressState>>,
        T: 'static,
    {
        Self { handler: post(handler), doc: RouteOperation::new("post", path, id) }
    }

    pub(crate) fn put<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<IngressState>>,
        T: 'static,
    {
        Self { handler: put(handler), doc: RouteOperation::new("put", path, id) }
    }

    pub(crate) fn delete<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<IngressState>>,
        T: 'static,
    {
        Self { handler: delete(handler), doc: RouteOperation::new("delete", path, id) }
    }

    pub(crate) fn summary(mut self, summary: &'static str) -> Self {
        self.doc.summary = summary;
        self
    }

    /// The permission that the caller's key must have; the router checks it. A route without one needs no
    /// key.
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

    /// A JSON body.
    pub(crate) fn accepts<T: JsonSchema>(self) -> Self {
        self.accepts_in::<T>("application/json")
    }

    pub(crate) fn accepts_in<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.doc.bodies.push((media, schema_of::<T>));
        self
    }

    pub(crate) fn body_optional(mut self) -> Self {
        self.doc.body_use = BodyUse::Optional;
        self
    }

    /// A JSON response.
    pub(crate) fn returns<T: JsonSchema>(self, status: u16, meaning: &'static str) -> Self {
        self.returns_in::<T>(status, "application/json", meaning)
    }

    pub(crate) fn returns_in<T: JsonSchema>(
        mut self,
        status: u16,
        media: &'static str,
        meaning: &'static str,
    ) -> Self {
        self.doc.answers.push(OperationAnswer { status, meaning, body: Some((media, schema_of::<T>)) });
        self
    }

    /// An answer without a body.
    pub(crate) fn returns_nothing(mut self, status: u16, meaning: &'static str) -> Self {
        self.doc.answers.push(OperationAnswer { status, meaning, body: None });
        self
    }

    pub(crate) fn problems(mut self, statuses: &'static [u16]) -> Self {
        self.doc.problems = statuses;
        self
    }

    pub(crate) fn located(mut self, located: LocationHeader) -> Self {
        self.doc.located = located;
        self
    }

    /// An OpenAPI link to an operation, with the fields of the answer that fill its path parameters.
    pub(crate) fn leads_to(mut self, operation: &'static str, parameters: &'static [&'static str]) -> Self {
        self.doc.links.push(OperationLink { operation, parameters });
        self
    }
}

impl RouteOperation {
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
            located: LocationHeader::Never,
            links: Vec::new(),
        }
    }
}
