//! People who work on items: their skills, and whether they get assignments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::queues::WorkState;
use crate::scalar;

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Person", deny_unknown_fields)]
pub struct PersonView {
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
    #[schemars(with = "Vec<scalar::Name>", length(max = 64))]
    pub skills: Vec<String>,
    pub state: WorkState,
}

/// The skills of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewPerson {
    /// Replaces all skills; none, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::Name>>", length(max = 64))]
    pub skills: Option<Vec<String>>,
}
