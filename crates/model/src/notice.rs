//! Notices: outbound notifications about runs and items, for rare events that may need an operator.
//!
//! A notice is derived from a change of a run or an item alone and written in the same commit. Successes cause
//! no notice, and neither do requested changes: the caller that cancels a run or withdraws an item knows
//! already.

use serde::{Deserialize, Serialize};

use crate::raw::RawJson;
use crate::time::Timestamp;
use crate::words;

words! {
    /// Subject type of a notice. Ids are unique within one subject type.
    NoticeSubject {
        Run = "run",
        Item = "item",
    }
}

words! {
    /// Kind of a notice. The words are part of the public contract and never change.
    NoticeKind {
        /// No device is left for a run, which has failed.
        #[serde(rename = "run.nobody_left")]
        RunNobodyLeft = "run.nobody_left",
        /// A device reported that the run cannot be done.
        #[serde(rename = "run.failed")]
        RunFailed = "run.failed",
        /// The item reached the assignment limit of its queue, has no eligible person, or is overdue.
        #[serde(rename = "item.failed")]
        ItemFailed = "item.failed",
        /// The item would have failed; its queue escalates it to another queue or names an event.
        #[serde(rename = "item.escalated")]
        ItemEscalated = "item.escalated",
    }
}

impl NoticeKind {
    pub const fn subject_kind(self) -> NoticeSubject {
        match self {
            Self::RunNobodyLeft | Self::RunFailed => NoticeSubject::Run,
            Self::ItemFailed | Self::ItemEscalated => NoticeSubject::Item,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: NoticeKind,
    /// The id of the run or item.
    pub subject: String,
    pub at: Timestamp,
    /// Details, a JSON object.
    pub data: RawJson,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_kind_starts_with_subject() {
        for kind in NoticeKind::ALL {
            assert!(kind.as_str().starts_with(&format!("{}.", kind.subject_kind())), "{kind}");
        }
    }

    #[test]
    fn notice_kind_serializes_as_its_word() {
        for kind in NoticeKind::ALL {
            assert_eq!(RawJson::from_value(kind).as_str(), format!("\"{kind}\""));
        }
    }
}
