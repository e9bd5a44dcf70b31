//! How large things may be that people hand in or ask for.

/// The payload of an item.
pub const MAX_PAYLOAD_BYTES: usize = 256 * 1024;
/// What one person hands in.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// What whoever waits for an item is told: as much as any result of an action.
pub const MAX_TOLD_BYTES: usize = 192 * 1024;
/// Why somebody skipped, or an operator withdrew.
pub const MAX_REASON_BYTES: usize = 2_000;
/// People that a queue names.
pub const MAX_PEOPLE: usize = 10_000;
/// Skills of an item, a queue or a person.
pub const MAX_SKILLS: usize = 64;
/// People who work on one item.
pub const MAX_OVERLAP: i64 = 100;
/// Of one item, by all of its people.
pub const MAX_ATTEMPTS: i64 = 1_000;
/// Open assignments of one person in one queue.
pub const MAX_OPEN: i64 = 1_000;
/// Priorities go from minus this to this.
pub const MAX_PRIORITY: i64 = 1_000_000;
/// Rules of a queue.
pub const MAX_RULES: usize = 100;
/// Different sets of skills among the items of one queue: each has its own line to stand in.
pub const MAX_SKILL_SETS: usize = 10_000;
/// Problems that are told about one answer.
pub const MAX_PROBLEMS: usize = 100;
