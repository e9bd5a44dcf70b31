//! API keys: listed, created, rotated, revoked.

use std::time::Duration;

use millstream_model::duration;
use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// What a key may do.
    ApiKeyRole from millstream_model::status::Role {
        Admin = "admin",
        Operator = "operator",
        Submit = "submit",
        Read = "read",
        Worker = "worker",
        Executor = "executor",
        Device = "device",
        Work = "work",
    }
}

api_words! {
    /// `current` and `rotated` work; a rotated one has a successor and expires after the overlap.
    ApiKeyStatus {
        Current = "current",
        Rotated = "rotated",
        Expired = "expired",
        Revoked = "revoked",
    }
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ApiKey {
    #[schemars(with = "scalar::KeyId")]
    pub key_id: String,
    /// Null for an operator, which belongs to no tenant.
    #[schemars(with = "Option<scalar::TenantId>")]
    pub tenant: Option<String>,
    pub name: String,
    pub role: ApiKeyRole,
    pub status: ApiKeyStatus,
    /// The person or the device that it is bound to.
    pub bound_to: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    /// The name of the key that issued it; null if it was created on the store.
    pub created_by: Option<String>,
    #[schemars(with = "Option<scalar::Time>")]
    pub last_used_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub expires_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub revoked_at: Option<Timestamp>,
}

/// A new key with its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IssuedApiKey {
    #[serde(flatten)]
    pub view: ApiKey,
    /// The secret, for `Authorization: Bearer`; shown only here.
    #[schemars(regex(pattern = r"^ms_[0-9a-f]{64}$"))]
    pub key: String,
}

impl std::fmt::Debug for IssuedApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedApiKey").field("view", &self.view).finish_non_exhaustive()
    }
}

/// A key to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewApiKey {
    #[schemars(with = "scalar::ApiKeyName")]
    pub name: String,
    pub role: ApiKeyRole,
    /// Required from an operator, except for the role operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::TenantId>")]
    pub tenant: Option<String>,
    /// How long until it expires; without it, it expires with the key that creates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub expires_in: Option<String>,
    /// Required for the role work, which is bound to one person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::PersonId>")]
    pub person: Option<String>,
    /// Binds a key with the role device to one device.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::DeviceId>")]
    pub device: Option<String>,
}

impl NewApiKey {
    /// For the tenant of the caller, and without an expiry of its own.
    pub fn named(name: impl Into<String>, role: ApiKeyRole) -> Self {
        Self { name: name.into(), role, tenant: None, expires_in: None, person: None, device: None }
    }

    /// Required from an operator, except for the role operator.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Expires after this time.
    #[must_use]
    pub fn expires_in(mut self, length: Duration) -> Self {
        self.expires_in = Some(duration::format_duration(length));
        self
    }

    /// Binds a key with the role work to its person.
    #[must_use]
    pub fn person(mut self, person: impl Into<String>) -> Self {
        self.person = Some(person.into());
        self
    }

    /// Binds a key with the role device to one device.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }
}

/// The rotation of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ApiKeyRotation {
    /// How long the old key stays valid; default 7d.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub overlap: Option<String>,
    /// How long until the successor expires; default: the lifetime of the old key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub expires_in: Option<String>,
}
