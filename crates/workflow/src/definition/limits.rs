//! Size limits of definitions.

pub const MAX_STATES: usize = 1_000;
pub const MAX_ACTIONS: usize = 1_000;
/// Alternatives of all events of all states together.
pub const MAX_ALTERNATIVES: usize = 10_000;
/// Timers of one state.
pub const MAX_TIMERS: usize = 32;
/// Actions of one `do` list.
pub const MAX_ACTIONS_PER_LIST: usize = 64;
/// Attempts of one action.
pub const MAX_ATTEMPTS: i64 = 1_000;
/// Reported problems; further ones are only counted.
pub const MAX_PROBLEMS: usize = 100;
/// Labels of one task.
pub const MAX_LABELS: usize = 16;
/// Response of an HTTP action, whatever a worker allows.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
