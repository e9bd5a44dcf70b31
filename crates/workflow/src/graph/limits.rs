//! Size limits of graphs.

use std::time::Duration;

/// Nodes of a graph, instances of fan-outs included.
pub const MAX_NODES: usize = 20_000;
/// Edges of a graph.
pub const MAX_EDGES: usize = 200_000;
/// Nesting depth of graphs.
pub const MAX_DEPTH: usize = 4;
/// Edits of one patch.
pub const MAX_EDITS: usize = 1_000;
/// Result of a node that an expression mentions.
pub const MAX_KEPT_BYTES: usize = 64 * 1024;
/// Result of a node.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// A node's own texts: goal, labels, expressions.
pub const MAX_NODE_BYTES: usize = 64 * 1024;

pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
pub const DEFAULT_PARALLEL: u32 = 1_000;

/// The graph's `input`, as seen by conditions.
pub const MAX_INPUT_BYTES: usize = 1024 * 1024;
/// Own texts of all instances of one fan-out together.
pub const MAX_EXPANDED_BYTES: usize = 64 * 1024 * 1024;
/// Attempts at one node.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// Problems that are reported at once.
pub const MAX_PROBLEMS: usize = 50;
/// Characters in names of graphs, roles, models and dependencies.
pub const MAX_NAME_CHARS: usize = 200;
