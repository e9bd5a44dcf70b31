//! Where a seat stands.

use crate::status::words;

words! {
    /// Where a seat of a run stands. The two `assigning_*` are passed through within one commit: the log shows
    /// them, no stored run has them.
    Status {
        /// Nobody has been asked yet.
        Created = "created",
        /// A device takes it without being asked.
        AssigningToSelf = "assigning_to_self",
        /// It is given to a device that was chosen.
        AssigningToOther = "assigning_to_other",
        /// A device is asked and has not answered.
        Assigned = "assigned",
        /// A device has accepted it and has it for itself.
        Claimed = "claimed",
        /// That device works on it.
        Processing = "processing",
        /// Nobody has it: the next device is looked for.
        Reassigning = "reassigning",
        Completed = "completed",
        Failed = "failed",
    }
}

impl Status {
    /// A device has it, or is asked.
    pub const fn is_held(self) -> bool {
        match self {
            Self::Assigned | Self::Claimed | Self::Processing => true,
            Self::Created
            | Self::AssigningToSelf
            | Self::AssigningToOther
            | Self::Reassigning
            | Self::Completed
            | Self::Failed => false,
        }
    }

    /// Nothing more happens to it unless a person retries it.
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Created
            | Self::AssigningToSelf
            | Self::AssigningToOther
            | Self::Assigned
            | Self::Claimed
            | Self::Processing
            | Self::Reassigning => false,
        }
    }

    /// Nobody has it and somebody is wanted.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Created | Self::Reassigning => true,
            Self::AssigningToSelf
            | Self::AssigningToOther
            | Self::Assigned
            | Self::Claimed
            | Self::Processing
            | Self::Completed
            | Self::Failed => false,
        }
    }
}
