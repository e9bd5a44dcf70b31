//! Cursors: where a list goes on, in a form that invites nobody to read it.
//!
//! A cursor is the position of the last item that was given, tagged with the list it belongs to and
//! written in hex. It holds no secret and no promise: one that was tampered with is an error or
//! another position, never another tenant's data.

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Definitions,
    Executions,
    Events,
    History,
    Actions,
    Timers,
}

impl List {
    const fn tag(self) -> &'static str {
        match self {
            Self::Definitions => "d1:",
            Self::Executions => "x1:",
            Self::Events => "e1:",
            Self::History => "h1:",
            Self::Actions => "a1:",
            Self::Timers => "t1:",
        }
    }
}

pub(crate) fn encode(list: List, position: impl std::fmt::Display) -> String {
    format!("{}{position}", list.tag()).bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The position inside, or `None` when it is not a cursor of this list.
pub(crate) fn decode(list: List, cursor: &str) -> Option<String> {
    if cursor.len() > 1024 || !cursor.len().is_multiple_of(2) || !cursor.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        (0..cursor.len()).step_by(2).map(|at| u8::from_str_radix(&cursor[at..at + 2], 16).ok()).collect();
    let text = String::from_utf8(bytes?).ok()?;
    text.strip_prefix(list.tag()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_by_its_own_list_only() {
        let cursor = encode(List::Executions, 42);
        assert_eq!(decode(List::Executions, &cursor).as_deref(), Some("42"));
        assert_eq!(decode(List::Events, &cursor), None);
    }

    #[test]
    fn nonsense_is_not_a_cursor() {
        for nonsense in ["", "z", "zz", "+1", "é", "ff", &"00".repeat(600)] {
            assert_eq!(decode(List::History, nonsense), None, "{nonsense}");
        }
    }
}
