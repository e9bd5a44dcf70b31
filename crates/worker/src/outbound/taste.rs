//! Event filter of a sink.

/// Every type of event: those of graphs, named as for watchers of a graph, and notices.
pub const KINDS: &[&str] = &[
    "workflow.created",
    "workflow.edited",
    "workflow.completed",
    "workflow.failed",
    "workflow.cancelled",
    "node.expanded",
    "node.scheduled",
    "node.dispatched",
    "node.retried",
    "node.completed",
    "run.nobody_left",
    "run.failed",
    "item.failed",
    "item.escalated",
];

/// Wildcards for all types of a kind.
pub const FAMILIES: &[&str] = &["workflow.*", "node.*", "run.*", "item.*"];

/// All event types, or a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taste(Vec<String>);

impl Taste {
    /// Accepts types like `node.completed`, or `node.*` for all of a kind; none: all types. The error is the
    /// first unknown one.
    pub fn of<'a>(types: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut wanted = Vec::new();
        for kind in types {
            if !FAMILIES.contains(&kind) && !KINDS.contains(&kind) {
                return Err(kind.to_owned());
            }
            wanted.push(kind.to_owned());
        }
        Ok(Self(wanted))
    }

    pub(crate) fn wants(&self, kind: &str) -> bool {
        let covers = |wanted: &String| match wanted.strip_suffix('*') {
            Some(family) => kind.starts_with(family),
            None => kind == wanted,
        };
        self.0.is_empty() || self.0.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_everything_is_wanted() {
        assert!(KINDS.iter().all(|kind| Taste::default().wants(kind)));
    }

    #[test]
    fn what_is_named_is_wanted_alone_or_with_its_family() {
        let taste = Taste::of(["workflow.*", "node.completed"]).unwrap();
        let wanted: Vec<_> = KINDS.iter().filter(|kind| taste.wants(kind)).collect();
        assert_eq!(wanted.len(), 6);
        assert!(taste.wants("node.completed") && !taste.wants("node.scheduled"));
    }

    #[test]
    fn every_kind_of_notice_may_be_asked_for() {
        for kind in millstream_core::notice::Kind::ALL {
            assert!(Taste::of([kind.as_str()]).unwrap().wants(kind.as_str()));
            assert!(Taste::of([format!("{}.*", kind.family()).as_str()]).unwrap().wants(kind.as_str()));
        }
    }

    #[test]
    fn what_does_not_exist_is_named() {
        assert_eq!(Taste::of(["node.completed", "node.done"]), Err("node.done".to_owned()));
        assert_eq!(Taste::of(["*"]), Err("*".to_owned()));
    }
}
