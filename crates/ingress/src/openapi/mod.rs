//! The OpenAPI document: generated from the routes and the types of `millstream_api`.
//!
//! Paths, methods, tags, roles, parameters and responses come from the values that define the router, the
//! schemas of bodies from the types that the ingress serialises (see `docs/decisions/openapi.md`).
//!
//! - `document`: the whole document
//! - `operation`: one method on one path
//! - `description`: what an operation says beyond its summary
//! - `answers`: responses, their headers and links
//! - `component_schemas`: the schemas of all bodies
//! - `portable`: schemas in the form that client generators understand
//! - `alternatives`: choices between schemas

mod alternatives;
mod answers;
mod component_schemas;
mod description;
mod document;
mod operation;
mod portable;

pub use document::document;
pub(crate) use document::render_document;
