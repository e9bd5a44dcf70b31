//! Server-sent events, described by the schemas of their fields.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Schema of the `data` of a server-sent event: the JSON text of a `T`. It has no values.
#[derive(Debug)]
pub struct SseData<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for SseData<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}Data", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let content = generator.subschema_for::<T>();
        json_schema!({ "type": "string", "contentMediaType": "application/json", "contentSchema": content })
    }
}
