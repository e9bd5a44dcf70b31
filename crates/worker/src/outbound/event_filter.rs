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
pub struct SinkFilter(Vec<String>);

impl SinkFilter {
    /// Accepts types like `node.completed`, or `node.*` for all of a kind; none: all types. The error is the
    /// first unknown one.
    pub fn of_types<'a>(types: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut wanted = Vec::new();
        for kind in types {
            if !FAMILIES.contains(&kind) && !KINDS.contains(&kind) {
                return Err(kind.to_owned());
            }
            wanted.push(kind.to_owned());
        }
        Ok(Self(wanted))
    }

    pub(crate) fn accepts_type(&self, kind: &str) -> bool {
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
    fn empty_event_filter_accepts_everything() {
        assert!(KINDS.iter().all(|kind| SinkFilter::default().accepts_type(kind)));
    }

    #[test]
    fn event_filter_accepts_type_or_family() {
        let taste = SinkFilter::of_types(["workflow.*", "node.completed"]).unwrap();
        let wanted: Vec<_> = KINDS.iter().filter(|kind| taste.accepts_type(kind)).collect();
        assert_eq!(wanted.len(), 6);
        assert!(taste.accepts_type("node.completed") && !taste.accepts_type("node.scheduled"));
    }

    #[test]
    fn event_filter_knows_all_notices() {
        for kind in millstream_model::notice::NoticeKind::ALL {
            assert!(SinkFilter::of_types([kind.as_str()]).unwrap().accepts_type(kind.as_str()));
            assert!(
                SinkFilter::of_types([format!("{}.*", kind.subject_kind()).as_str()])
                    .unwrap()
                    .accepts_type(kind.as_str())
            );
        }
    }

    #[test]
    fn event_filter_names_unknown_type() {
        assert_eq!(SinkFilter::of_types(["node.completed", "node.done"]), Err("node.done".to_owned()));
        assert_eq!(SinkFilter::of_types(["*"]), Err("*".to_owned()));
    }
}
