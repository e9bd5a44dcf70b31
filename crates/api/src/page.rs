//! Lists: one page of items, with the cursor of the next page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page", deny_unknown_fields)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Send it as `cursor` to get the next page; opaque. Null on the last page.
    pub next_cursor: Option<String>,
}
