//! The context of an execution: its data, which expressions read and transitions write.

use std::collections::BTreeMap;

use crate::raw::RawJson;

/// An execution's data: top-level keys with values kept as raw JSON, so that a step touches only
/// what its expressions mention.
pub type ExecutionContext = BTreeMap<String, RawJson>;

/// An execution's context may not grow beyond this many bytes of JSON.
pub const MAX_CONTEXT_BYTES: usize = 256 * 1024;

/// Approximate size of a context as JSON, for the size limit.
pub fn context_bytes(context: &ExecutionContext) -> usize {
    2 + context.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>()
}
