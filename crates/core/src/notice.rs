//! What others are told of runs and items: rare things that somebody may have to act upon.
//!
//! Derived from a change and nothing else ([`claim::notices`](crate::claim::notices),
//! [`assignment::notices`](mod@crate::assignment::notices)), and written with it. What goes well is not among them, and
//! neither is what somebody asked for: whoever cancels a run or withdraws an item knows.

use serde::{Deserialize, Serialize};

use crate::raw::RawJson;
use crate::status::words;
use crate::time::Timestamp;

words! {
    /// What a notice is about. Ids are unique within one of these.
    Family {
        Run = "run",
        Item = "item",
    }
}

words! {
    /// The words are for ever.
    Kind {
        /// No device is left for a run, which has failed with that.
        #[serde(rename = "run.nobody_left")]
        RunNobodyLeft = "run.nobody_left",
        /// A device says that it cannot be done.
        #[serde(rename = "run.failed")]
        RunFailed = "run.failed",
        /// It was given out as often as its queue allows, or nobody may have it, or it is late.
        #[serde(rename = "item.failed")]
        ItemFailed = "item.failed",
        /// It would have failed; its queue sends it to another one, or names an event.
        #[serde(rename = "item.escalated")]
        ItemEscalated = "item.escalated",
    }
}

impl Kind {
    pub const fn family(self) -> Family {
        match self {
            Self::RunNobodyLeft | Self::RunFailed => Family::Run,
            Self::ItemFailed | Self::ItemEscalated => Family::Item,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: Kind,
    /// The id of the run or item.
    pub subject: String,
    pub at: Timestamp,
    /// What there is to know, an object.
    pub data: RawJson,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_begins_with_its_family() {
        for kind in Kind::ALL {
            assert!(kind.as_str().starts_with(&format!("{}.", kind.family())), "{kind}");
        }
    }

    #[test]
    fn a_kind_is_written_with_its_word() {
        for kind in Kind::ALL {
            assert_eq!(RawJson::of(kind).as_str(), format!("\"{kind}\""));
        }
    }
}
