//! Schemas of scalar values: ids, names, times and parameters.
//!
//! In the structs of this crate these values are plain strings and numbers. The types here stand for their
//! schemas in `#[schemars(with = "…")]`, and parameters name them; they have no values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The comment of a type is the description in its schema.
macro_rules! scalars {
    ($($(#[doc = $doc:literal])* $name:ident $schema:tt)+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    let mut schema = json_schema!($schema);
                    let description = concat!($($doc),*);
                    if !description.is_empty() {
                        schema.insert("description".to_owned(), description.trim_start().into());
                    }
                    schema
                }
            }
        )+

        /// Adds all of them to the definitions: parameters refer to them by name.
        pub fn add_scalars(generator: &mut SchemaGenerator) {
            $(generator.subschema_for::<$name>();)+
        }
    };
}

scalars! {
    /// Like 250ms, 15s, 30m, 12h, 30d or 1h30m; greater than zero and at most 100 years.
    Duration { "type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "minLength": 2 }
    Name { "type": "string", "pattern": "^[a-z][a-z0-9_.-]*$", "maxLength": 128 }
    ExecutionId { "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 }
    EventId { "type": "string", "format": "uuid" }
    Version { "type": "integer", "minimum": 1, "maximum": 2147483647 }
    Seq { "type": "integer", "minimum": 1, "maximum": 9_223_372_036_854_775_807_i64 }
    SeqOrZero { "type": "integer", "minimum": 0, "maximum": 9_223_372_036_854_775_807_i64 }
    Time { "type": "string", "format": "date-time" }
    Limit { "type": "integer", "minimum": 1, "maximum": 500, "default": 50 }
    LongLimit { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }
    /// The `next_cursor` of the previous page; opaque.
    Cursor { "type": "string" }
    Seconds { "type": "integer", "minimum": 1 }
    /// At most 255 bytes, no control characters.
    IdempotencyKey { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" }
    IdempotencyHeader { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$" }
    /// wait=SECONDS, until=applied, respond-async; others are ignored.
    Prefer { "type": "string", "pattern": "^[\t -~]*$" }
    Validate { "type": "string", "enum": ["state"] }
    IncidentId { "type": "string", "format": "uuid" }
    /// Equal for the same definition, action and class of error.
    Fingerprint { "type": "string", "pattern": "^[0-9a-f]{16}$" }
    /// At most 256 bytes, no control characters.
    Correlation { "type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" }
    Text { "type": "string" }
    /// The key of an action, percent-encoded in a path.
    TaskKey { "type": "string", "minLength": 1 }
    /// The `id` of the last processed event.
    WatchPlace { "type": "string", "pattern": "^[1-9][0-9]{0,17}\\.(0|[1-9][0-9]{0,8})$" }
    RunId { "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 }
    DeviceId { "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 }
    /// The fencing token: comes with the assignment and grows with every assignment.
    AssignmentToken { "type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64 }
    /// How long to wait for a change.
    WaitSeconds { "type": "integer", "minimum": 0, "maximum": 60 }
    /// The `version` of the last list that was received: the answer waits until the list differs from it. Without it, the wait ends as soon as the list has an item.
    AssignmentsVersion { "type": "string" }
    PersonId { "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 }
    ItemId { "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 }
    AssignmentId { "type": "string", "format": "uuid", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" }
    StatsBy { "type": "string", "enum": ["queue", "person", "both"], "default": "queue" }
    Day { "type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }
    /// A tenant by name.
    TenantId { "type": "string", "pattern": "^[a-z][a-z0-9_.-]*$", "maxLength": 64 }
    /// Names an API key; says nothing about its secret.
    KeyId { "type": "string", "pattern": "^[0-9a-f]{24}$" }
    ApiKeyName { "type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[^#\\u0000-\\u001f\\u007f-\\u009f]*$" }
    /// A note about the progress of the work.
    ProgressNote { "type": ["string", "null"], "maxLength": 1000 }
    ExecutorRole { "type": "string", "minLength": 1, "maxLength": 256 }
    /// An OpenAPI document.
    OpenApi { "type": "object" }
}
