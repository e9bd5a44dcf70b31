//! Writes the configuration of a queue in its stored form, which has every field with its default spelled out.
//!
//! The stored form keeps the name `max_attempts_per_labeler`, the only one that earlier releases read; the API
//! shows `max_attempts_per_person`. [`QueueConfig::parse`] reads both.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::queue::{QueueConfig, whole_seconds};

pub(super) const ATTEMPTS_FIELD: &str = "max_attempts_per_person";
/// The alias of [`ATTEMPTS_FIELD`], and its name in the stored form.
pub(super) const ATTEMPTS_ALIAS: &str = "max_attempts_per_labeler";

/// Serializes as the stored form.
#[derive(Debug)]
pub(super) struct StoredQueueConfig<'a>(pub(super) &'a QueueConfig);

impl Serialize for StoredQueueConfig<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_fields(self.0, serializer)
    }
}

/// The order is part of the stored form: a text that differs from the stored one counts as a changed
/// configuration in PostgreSQL.
fn serialize_fields<S: Serializer>(config: &QueueConfig, serializer: S) -> Result<S::Ok, S::Error> {
    let QueueConfig {
        format,
        name,
        timeout,
        pre_assignment_timeout,
        max_attempts_per_person,
        max_attempts_total,
        reassign_expired,
        reassign_skipped,
        skip_requires_reason,
        people,
        skills,
        overlap,
        per_person,
        priority,
        due,
        escalate,
        schema,
        rules,
        agreement,
    } = config;
    let mut fields = serializer.serialize_struct("QueueConfig", 19)?;
    fields.serialize_field("format", format)?;
    fields.serialize_field("name", name)?;
    fields.serialize_field("timeout_seconds", &whole_seconds(*timeout))?;
    fields.serialize_field("pre_assignment_timeout", &pre_assignment_timeout.map(whole_seconds))?;
    fields.serialize_field(ATTEMPTS_ALIAS, max_attempts_per_person)?;
    fields.serialize_field("max_attempts_total", max_attempts_total)?;
    fields.serialize_field("reassign_expired", reassign_expired)?;
    fields.serialize_field("reassign_skipped", reassign_skipped)?;
    fields.serialize_field("skip_requires_reason", skip_requires_reason)?;
    fields.serialize_field("people", people)?;
    fields.serialize_field("skills", skills)?;
    fields.serialize_field("overlap", overlap)?;
    fields.serialize_field("per_person", per_person)?;
    fields.serialize_field("priority", priority)?;
    fields.serialize_field("due", &due.map(whole_seconds))?;
    fields.serialize_field("escalate", escalate)?;
    fields.serialize_field("schema", schema)?;
    fields.serialize_field("rules", rules)?;
    fields.serialize_field("agreement", agreement)?;
    fields.end()
}
