//! Size limits of what people submit or request.

/// Payload of an item.
pub const MAX_PAYLOAD_BYTES: usize = 256 * 1024;
/// Answer of one assignment.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Outcome delivered to the waiting execution: the limit of any action result.
pub const MAX_TOLD_BYTES: usize = 192 * 1024;
/// Reason of a skip or a withdrawal.
pub const MAX_REASON_BYTES: usize = 2_000;
/// Persons listed by a queue.
pub const MAX_PEOPLE: usize = 10_000;
/// Skills of an item, a queue or a person.
pub const MAX_SKILLS: usize = 64;
/// Persons who work on one item.
pub const MAX_OVERLAP: i64 = 100;
/// Attempts at one item, over all persons.
pub const MAX_ATTEMPTS: i64 = 1_000;
/// Open assignments of one person in one queue.
pub const MAX_OPEN: i64 = 1_000;
/// Priorities range from minus this to this.
pub const MAX_PRIORITY: i64 = 1_000_000;
/// Rules of a queue.
pub const MAX_RULES: usize = 100;
/// Distinct skill sets among the items of one queue: each has its own index of openings.
pub const MAX_SKILL_SETS: usize = 10_000;
/// Problems reported for one answer.
pub const MAX_PROBLEMS: usize = 100;
