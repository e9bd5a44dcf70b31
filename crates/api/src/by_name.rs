//! References to schemas by name, for those that are described elsewhere. They have no values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! schemas_by_name {
    ($($name:ident)+) => {
        $(
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "$ref": concat!("#/components/schemas/", stringify!($name)) })
                }
            }
        )+
    };
}

schemas_by_name! {
    NodeStatus
    QuotaName
    QuotaSource
    QuotaValue
    RunStatus
}
