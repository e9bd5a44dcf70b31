//! Restricted YAML: no YAML 1.1 booleans, no merge keys, no tags, one document, and a parse budget.
//!
//! `docs/decisions/yaml-parser.md` explains the choice of the parser.

use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, budget, from_str_with_options, options};

use super::node::DocumentNode;
use crate::raw::MAX_DEPTH;

/// Parses one document; the error is one line with position and cause.
pub(super) fn parse(source: &str) -> Result<DocumentNode, String> {
    let options = options! {
        budget: budget! {
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_events: 200_000,
            max_nodes: 100_000,
            max_aliases: 1_000,
            max_anchors: 200,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    from_str_with_options(source, options).map_err(|error| {
        let message = error.to_string();
        // Drops the parser's advice to programmers, which does not help the author of a definition.
        let line = message.lines().next().unwrap_or_default();
        let line = line.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
        format!("not valid YAML: {}", line.chars().take(300).collect::<String>())
    })
}
