//! A graph event, or a notice of a run or an item, as a CloudEvent.

use millstream_model::id::{ExecutionId, ExecutionKey, Seq};
use millstream_model::notice::Notice;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::notices::DueNotice;
use millstream_workflow::graph_machine;
use serde::{Deserialize, Serialize};

/// Prefix of the event types.
const PREFIX: &str = "millstream.graph.";
const NOTICE_PREFIX: &str = "millstream.";
pub(super) const DISPATCHED: &str = "node.dispatched";

/// In the JSON format of CloudEvents 1.0. `id` is the same for every repetition, and unique with `source`;
/// `sequence` orders the events of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CloudEvent {
    pub specversion: &'static str,
    /// The position of the event: for a graph, as its watchers see it.
    pub id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The graph, run or item.
    pub subject: String,
    pub time: Timestamp,
    /// Compares as text in the order of its numbers.
    pub sequence: String,
    pub datacontenttype: &'static str,
    /// For a graph: the same content that its watchers see.
    pub data: RawJson,
}

/// Position of an event: a feed entry, and an index into its events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventPosition {
    pub(crate) position: i64,
    pub(crate) index: usize,
}

/// One attempt in a `Dispatched` entry of the feed.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct DispatchedAttempt {
    node: String,
    attempt: u32,
    executor: String,
    reason: String,
}

/// One event, with its type.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OutboundEvent {
    Noticed(graph_machine::GraphTransitionNotice),
    Dispatched(DispatchedEvent),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "node.dispatched")]
pub(crate) struct DispatchedEvent {
    #[serde(flatten)]
    what: DispatchedAttempt,
}

#[derive(Serialize)]
struct GraphEventBody<'a> {
    graph_id: &'a ExecutionId,
    at: Timestamp,
    seq: Option<Seq>,
    #[serde(flatten)]
    what: &'a OutboundEvent,
}

impl OutboundEvent {
    pub(crate) const fn of_dispatch(what: DispatchedAttempt) -> Self {
        Self::Dispatched(DispatchedEvent { what })
    }

    pub(crate) const fn event_type(&self) -> &'static str {
        match self {
            Self::Noticed(notice) => notice.kind(),
            Self::Dispatched(_) => DISPATCHED,
        }
    }
}

impl CloudEvent {
    /// `source` is the configured prefix; the tenant is appended.
    pub(crate) fn new(
        source: &str,
        graph: &ExecutionKey,
        place: EventPosition,
        at: Timestamp,
        seq: Option<Seq>,
        what: &OutboundEvent,
    ) -> Self {
        let ExecutionKey { tenant, execution } = graph;
        let EventPosition { position, index } = place;
        Self {
            specversion: "1.0",
            id: format!("{position}.{index}"),
            source: format!("{source}/{tenant}"),
            kind: format!("{PREFIX}{}", what.event_type()),
            subject: execution.as_str().to_owned(),
            time: at,
            sequence: format!("{position:019}.{index:06}"),
            datacontenttype: "application/json",
            data: RawJson::from_value(&GraphEventBody { graph_id: execution, at, seq, what }),
        }
    }

    pub(crate) fn of_notice(source: &str, due: &DueNotice) -> Self {
        let DueNotice { position, tenant, notice, attempts: _ } = due;
        let Notice { kind, subject, at, data } = notice;
        Self {
            specversion: "1.0",
            // Positions of notices and of the feed are numbers of different kinds.
            id: format!("notice.{position}"),
            source: format!("{source}/{tenant}"),
            kind: format!("{NOTICE_PREFIX}{kind}"),
            subject: subject.clone(),
            time: *at,
            sequence: format!("{position:019}.000000"),
            datacontenttype: "application/json",
            data: data.clone(),
        }
    }

    /// Approximate size.
    pub(crate) fn approximate_bytes(&self) -> usize {
        const ATTRIBUTES: usize = 300;
        self.data.len() + self.source.len() + self.subject.len() + ATTRIBUTES
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::id::TenantId;

    use super::*;

    fn event(position: i64, index: usize) -> CloudEvent {
        let graph = ExecutionKey {
            tenant: TenantId::parse("acme").unwrap(),
            execution: ExecutionId::parse("r-1").unwrap(),
        };
        let what = OutboundEvent::Noticed(graph_machine::GraphTransitionNotice::Failed {
            reason: Some("two nodes failed".to_owned()),
        });
        let at = Timestamp::from_millis(1_700_000_000_123);
        CloudEvent::new("/millstream", &graph, EventPosition { position, index }, at, Some(Seq(7)), &what)
    }

    #[test]
    fn cloud_event_matches_json_format() {
        let written: serde_json::Value =
            serde_json::from_str(RawJson::from_value(&event(12, 3)).as_str()).unwrap();
        let wanted = serde_json::json!({
            "specversion": "1.0",
            "id": "12.3",
            "source": "/millstream/acme",
            "type": "millstream.graph.workflow.failed",
            "subject": "r-1",
            "time": "2023-11-14T22:13:20.123Z",
            "sequence": "0000000000000000012.000003",
            "datacontenttype": "application/json",
            "data": {
                "graph_id": "r-1", "at": "2023-11-14T22:13:20.123Z", "seq": 7,
                "type": "workflow.failed", "reason": "two nodes failed",
            },
        });
        assert_eq!(written, wanted);
    }

    #[test]
    fn notice_is_written_as_cloud_event() {
        let notice = Notice {
            kind: millstream_model::notice::NoticeKind::RunNobodyLeft,
            subject: "r-7".to_owned(),
            at: Timestamp::from_millis(1_700_000_000_123),
            data: RawJson::from_trusted_text(r#"{"run_id":"r-7"}"#),
        };
        let tenant = TenantId::parse("acme").unwrap();
        let due = DueNotice { position: 12, tenant, notice, attempts: 3 };
        let event = CloudEvent::of_notice("/millstream", &due);
        let written: serde_json::Value = serde_json::from_str(RawJson::from_value(&event).as_str()).unwrap();
        let wanted = serde_json::json!({
            "specversion": "1.0",
            "id": "notice.12",
            "source": "/millstream/acme",
            "type": "millstream.run.nobody_left",
            "subject": "r-7",
            "time": "2023-11-14T22:13:20.123Z",
            "sequence": "0000000000000000012.000000",
            "datacontenttype": "application/json",
            "data": { "run_id": "r-7" },
        });
        assert_eq!(written, wanted);
    }

    #[test]
    fn dispatch_event_equals_watched_event() {
        let stored =
            RawJson::from_trusted_text(r#"{"node":"a","attempt":1,"executor":"e","reason":"the only one"}"#);
        let what = OutboundEvent::of_dispatch(stored.decode().unwrap());
        assert_eq!(
            RawJson::from_value(&what).as_str(),
            r#"{"type":"node.dispatched","node":"a","attempt":1,"executor":"e","reason":"the only one"}"#
        );
    }

    #[test]
    fn cloud_event_sequences_sort_as_text() {
        let places = [(9, 0), (9, 9), (9, 10), (10, 0), (i64::MAX, 0)];
        let sequences: Vec<_> = places.map(|(position, index)| event(position, index).sequence).into();
        assert!(sequences.is_sorted(), "{sequences:?}");
    }
}
