//! Quotas of a tenant: names and values, the effective ones with their sources, and the usage.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// The name of a quota.
    QuotaName from millstream_model::quota::QuotaName {
        RequestsPerSecond = "requests_per_second",
        RequestsBurst = "requests_burst",
        EventsPerSecond = "events_per_second",
        EventsBurst = "events_burst",
        RequestsInFlight = "requests_in_flight",
        BodyBytesInFlight = "body_bytes_in_flight",
        Waits = "waits",
        Streams = "streams",
        ActionSlots = "action_slots",
        TaskLeases = "task_leases",
        OpenExecutions = "open_executions",
        Definitions = "definitions",
        Executors = "executors",
        Devices = "devices",
        OpenRuns = "open_runs",
        Keys = "keys",
        Queues = "queues",
        People = "people",
        QueueItems = "queue_items",
        StoredBytes = "stored_bytes",
        MaxActionTimeout = "max_action_timeout",
        MaxAttempts = "max_attempts",
        ChildDepth = "child_depth",
        ChildrenPerSecond = "children_per_second",
        ImportDuration = "import_duration",
    }
}

api_words! {
    /// The source of a quota: the row of the tenant, the settings for the tenant, the settings for all tenants,
    /// or the built-in value.
    QuotaSource from millstream_model::quota::QuotaSource {
        /// Set for the tenant over the API.
        Row = "row",
        /// `[tenants.NAME.quota]`.
        TenantSettings = "tenant_settings",
        /// `[quota]`.
        Settings = "settings",
        BuiltIn = "built_in",
    }
}

/// A number, `unlimited`, a part of a process like `3/4`, or a duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "QuotaValue")]
pub enum QuotaAmount {
    Number(u64),
    Text(String),
}

impl From<u64> for QuotaAmount {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for QuotaAmount {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl std::fmt::Display for QuotaAmount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Every quota of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TenantQuota {
    #[schemars(with = "scalar::TenantId")]
    pub tenant: String,
    pub items: Vec<SourcedQuota>,
}

/// A quota with its value and the source of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct SourcedQuota {
    pub name: QuotaName,
    pub value: QuotaAmount,
    pub source: QuotaSource,
}

/// The usage of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TenantUsage {
    #[schemars(with = "scalar::TenantId")]
    pub tenant: String,
    pub items: Vec<QuotaUsage>,
}

/// The usage of one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct QuotaUsage {
    pub name: QuotaName,
    pub used: u64,
    pub quota: QuotaAmount,
    pub scope: UsageScope,
}

api_words! {
    /// `store`: rows, of the whole fleet. `process`: of the process that answers.
    UsageScope {
        Store = "store",
        Process = "process",
    }
}

/// Values by name. An absent or null value is taken from the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewTenantQuota(pub BTreeMap<QuotaName, Option<QuotaAmount>>);

impl NewTenantQuota {
    #[must_use]
    pub fn with(mut self, name: QuotaName, value: impl Into<QuotaAmount>) -> Self {
        self.0.insert(name, Some(value.into()));
        self
    }
}

impl JsonSchema for NewTenantQuota {
    fn schema_name() -> Cow<'static, str> {
        "NewTenantQuota".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names = millstream_model::quota::QuotaName::ALL.iter();
        let value = generator.subschema_for::<Option<QuotaAmount>>().to_value();
        let properties: Map<_, _> = names.map(|name| (name.as_str().to_owned(), value.clone())).collect();
        json_schema!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
            "description": "Values by name. An absent or null value is taken from the settings.",
        })
    }
}
