//! Pagination cursors: opaque positions in lists.
//!
//! A cursor is the position of the last returned item, tagged with its list and written in hex. It contains
//! no secret and carries no guarantee: a cursor that was tampered with is an error or another position,
//! never another tenant's data.

/// The list of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorList {
    Definitions,
    Executions,
    Events,
    History,
    Actions,
    Timers,
    Incidents,
    Graphs,
    Nodes,
    NodeLogs,
    Devices,
    Runs,
    RunLog,
    Queues,
    People,
    Items,
    ItemLog,
    Assignments,
    Keys,
}

impl CursorList {
    pub(crate) const ALL: &[CursorList] = &[
        Self::Definitions,
        Self::Executions,
        Self::Events,
        Self::History,
        Self::Actions,
        Self::Timers,
        Self::Incidents,
        Self::Graphs,
        Self::Nodes,
        Self::NodeLogs,
        Self::Devices,
        Self::Runs,
        Self::RunLog,
        Self::Queues,
        Self::People,
        Self::Items,
        Self::ItemLog,
        Self::Assignments,
        Self::Keys,
    ];

    const fn tag(self) -> &'static str {
        match self {
            Self::Definitions => "d1:",
            Self::Executions => "x1:",
            Self::Events => "e1:",
            Self::History => "h1:",
            Self::Actions => "a1:",
            Self::Timers => "t1:",
            Self::Incidents => "i1:",
            Self::Graphs => "g1:",
            Self::Nodes => "n1:",
            Self::NodeLogs => "l1:",
            Self::Devices => "v1:",
            Self::Runs => "r1:",
            Self::RunLog => "w1:",
            Self::Queues => "q1:",
            Self::People => "p1:",
            Self::Items => "m1:",
            Self::ItemLog => "k1:",
            Self::Assignments => "s1:",
            Self::Keys => "y1:",
        }
    }
}

pub(crate) fn encode(list: CursorList, position: impl std::fmt::Display) -> String {
    format!("{}{position}", list.tag()).bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The position in the cursor; `None` when it is not a cursor of this list.
pub(crate) fn decode(list: CursorList, cursor: &str) -> Option<String> {
    if cursor.len() > 1024 || !cursor.len().is_multiple_of(2) || !cursor.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        (0..cursor.len()).step_by(2).map(|at| u8::from_str_radix(&cursor[at..at + 2], 16).ok()).collect();
    let text = String::from_utf8(bytes?).ok()?;
    let position = text.strip_prefix(list.tag())?;
    // Hex and numbers parse leniently (`3A`, `+5`); only the exact text that `encode` writes is a cursor.
    (encode(list, position) == cursor).then(|| position.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_decodes_for_own_list_only() {
        let cursor = encode(CursorList::Executions, 42);
        assert_eq!(decode(CursorList::Executions, &cursor).as_deref(), Some("42"));
        assert_eq!(decode(CursorList::Events, &cursor), None);
    }

    #[test]
    fn only_canonical_cursor_text_decodes() {
        assert_eq!(decode(CursorList::Executions, "78313a3a").as_deref(), Some(":"));
        for other in ["78313a3A", "78313a+5", "78313A35"] {
            assert_eq!(decode(CursorList::Executions, other), None, "{other}");
        }
    }

    #[test]
    fn invalid_cursor_is_rejected() {
        for nonsense in ["", "z", "zz", "+1", "é", "ff", &"00".repeat(600)] {
            assert_eq!(decode(CursorList::History, nonsense), None, "{nonsense}");
        }
    }
}
