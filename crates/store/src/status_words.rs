//! Lists of status words for the statements of backends, made of the enums at compile time.
//!
//! The lists are exhaustive matches: a new status stops the build until each of them has decided about it.
//! [`status_text!`](crate::status_text) puts them into the constant text of a statement, which names them:
//! `WHERE status IN ({OPEN_ACTIONS})`.

use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};

/// A text in which every mark like `{OPEN_ACTIONS}` is replaced by the list of this name, at compile time. Other
/// marks stay.
#[macro_export]
macro_rules! status_text {
    ($text:expr) => {{
        const BYTES: [u8; $crate::status_words::expanded_length($text)] =
            $crate::status_words::expand_bytes($text);
        $crate::status_words::text_of(&BYTES)
    }};
}

/// The words of an enum for which a `const fn` holds: quoted, separated by commas, in the order of the enum.
macro_rules! word_list {
    ($words:ty, $holds:path) => {{
        const COUNT: usize = <$words>::ALL.len();
        const PARTS: [&str; COUNT * 4] = {
            let (mut parts, mut place, mut separator) = ([""; COUNT * 4], 0, "");
            while place < COUNT {
                let word = <$words>::ALL[place];
                if $holds(word) {
                    parts[place * 4] = separator;
                    parts[place * 4 + 1] = "'";
                    parts[place * 4 + 2] = word.as_str();
                    parts[place * 4 + 3] = "'";
                    separator = ", ";
                }
                place += 1;
            }
            parts
        };
        const BYTES: [u8; total_length(&PARTS)] = join_bytes(&PARTS);
        text_of(&BYTES)
    }};
}

/// Declares the lists, and the table of their marks.
macro_rules! status_lists {
    ($($(#[$doc:meta])* $name:ident = $words:ident where $holds:path;)+) => {
        $($(#[$doc])* pub const $name: &str = word_list!($words, $holds);)+

        const LISTS: &[(&str, &str)] = &[$((concat!("{", stringify!($name), "}"), $name)),+];
    };
}

status_lists! {
    /// Actions that are not settled.
    OPEN_ACTIONS = ActionStatus where is_open;
    /// Actions that are settled, for now or finally.
    SETTLED_ACTIONS = ActionStatus where ActionStatus::is_settled;
    /// Settled actions that never run again by themselves: the others are on standby.
    CONCLUDED_ACTIONS = ActionStatus where is_concluded;
    /// Actions that are leased as soon as they are due.
    LEASABLE_ACTIONS = ActionStatus where is_leasable;
    /// Actions that the epoch of a lease protects.
    FENCED_ACTIONS = ActionStatus where is_fenced;
    /// Actions that may be running, or begin at once: the time of their schedule runs.
    SCHEDULED_ACTIONS = ActionStatus where is_scheduled;
    /// Open actions that a cancellation of their execution ends.
    CANCELLABLE_ACTIONS = ActionStatus where is_cancellable;
    /// The others: leased ones, which may settle, and settled ones.
    UNCANCELLABLE_ACTIONS = ActionStatus where is_uncancellable;
    /// Events that pause their execution until an operator decides.
    STUCK_EVENTS = EventStatus where is_stuck;
    /// Statuses of executions that have not ended.
    OPEN_EXECUTIONS = ExecutionStatus where is_open_execution;
}

const fn is_open(status: ActionStatus) -> bool {
    !status.is_settled()
}

const fn is_concluded(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Succeeded | ActionStatus::Failed | ActionStatus::Skipped | ActionStatus::Cancelled => {
            true
        }
        ActionStatus::Waiting
        | ActionStatus::Ready
        | ActionStatus::Leased
        | ActionStatus::Awaiting
        | ActionStatus::Standby => false,
    }
}

const fn is_leasable(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Ready | ActionStatus::Leased | ActionStatus::Awaiting => true,
        ActionStatus::Waiting
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => false,
    }
}

const fn is_fenced(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Leased | ActionStatus::Awaiting => true,
        ActionStatus::Waiting
        | ActionStatus::Ready
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => false,
    }
}

const fn is_scheduled(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Ready | ActionStatus::Leased => true,
        ActionStatus::Waiting
        | ActionStatus::Awaiting
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => false,
    }
}

const fn is_cancellable(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Waiting | ActionStatus::Ready | ActionStatus::Awaiting => true,
        ActionStatus::Leased
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => false,
    }
}

const fn is_uncancellable(status: ActionStatus) -> bool {
    !is_cancellable(status)
}

const fn is_stuck(status: EventStatus) -> bool {
    match status {
        EventStatus::Failed | EventStatus::Dead => true,
        EventStatus::Pending
        | EventStatus::Deferred
        | EventStatus::Processing
        | EventStatus::Completed
        | EventStatus::Rejected => false,
    }
}

const fn is_open_execution(status: ExecutionStatus) -> bool {
    match status {
        ExecutionStatus::Active | ExecutionStatus::Paused => true,
        ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Cancelled => false,
    }
}

const fn total_length(parts: &[&str]) -> usize {
    let (mut length, mut place) = (0, 0);
    while place < parts.len() {
        length += parts[place].len();
        place += 1;
    }
    length
}

const fn join_bytes<const LENGTH: usize>(parts: &[&str]) -> [u8; LENGTH] {
    let (mut bytes, mut length, mut place) = ([0; LENGTH], 0, 0);
    while place < parts.len() {
        let (part, mut taken) = (parts[place].as_bytes(), 0);
        while taken < part.len() {
            bytes[length] = part[taken];
            length += 1;
            taken += 1;
        }
        place += 1;
    }
    bytes
}

/// The mark that begins at this place of a text, and its list.
const fn mark_at(text: &[u8], start: usize) -> Option<(&'static str, &'static str)> {
    let mut place = 0;
    while place < LISTS.len() {
        let (mark, list) = LISTS[place];
        let (bytes, mut same) = (mark.as_bytes(), 0);
        while same < bytes.len() && start + same < text.len() && text[start + same] == bytes[same] {
            same += 1;
        }
        if same == bytes.len() {
            return Some((mark, list));
        }
        place += 1;
    }
    None
}

#[doc(hidden)]
pub const fn expanded_length(text: &str) -> usize {
    let (text, mut length, mut place) = (text.as_bytes(), 0, 0);
    while place < text.len() {
        let (taken, given) = match mark_at(text, place) {
            Some((mark, list)) => (mark.len(), list.len()),
            None => (1, 1),
        };
        place += taken;
        length += given;
    }
    length
}

#[doc(hidden)]
pub const fn expand_bytes<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let (text, mut bytes, mut length, mut place) = (text.as_bytes(), [0; LENGTH], 0, 0);
    while place < text.len() {
        if let Some((mark, list)) = mark_at(text, place) {
            let (list, mut given) = (list.as_bytes(), 0);
            while given < list.len() {
                bytes[length] = list[given];
                length += 1;
                given += 1;
            }
            place += mark.len();
        } else {
            bytes[length] = text[place];
            length += 1;
            place += 1;
        }
    }
    bytes
}

#[doc(hidden)]
pub const fn text_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // Parts are texts, and so is their sequence.
        Err(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: impl Iterator<Item = &'static str>) -> String {
        words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn lists_hold_the_words_of_the_enums() {
        assert_eq!(FENCED_ACTIONS, "'leased', 'awaiting'");
        assert_eq!(STUCK_EVENTS, "'failed', 'dead'");
        let settled = ActionStatus::ALL.iter().filter(|status| status.is_settled());
        assert_eq!(SETTLED_ACTIONS, list(settled.map(|status| status.as_str())));
        let both = format!("{OPEN_ACTIONS}, {SETTLED_ACTIONS}");
        assert_eq!(both, list(ActionStatus::ALL.iter().map(|status| status.as_str())));
    }

    #[test]
    fn marks_become_lists() {
        const STATEMENT: &str =
            status_text!(concat!("WHERE {now} > 'é' ", "AND status IN ({FENCED_ACTIONS})"));
        assert_eq!(STATEMENT, "WHERE {now} > 'é' AND status IN ('leased', 'awaiting')");
    }
}
