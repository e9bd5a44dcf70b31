//! The status of a seat.

use millstream_model::words;

words! {
    /// The status of a seat of a run. The two `assigning_*` exist within one commit only: the log shows them,
    /// no stored run has them.
    SeatStatus {
        /// No device has been asked yet.
        Created = "created",
        /// A device claims it on its own initiative.
        AssigningToSelf = "assigning_to_self",
        /// It is assigned to a selected device.
        AssigningToOther = "assigning_to_other",
        /// A device was asked and has not answered.
        Assigned = "assigned",
        /// A device has accepted it and holds the claim.
        Claimed = "claimed",
        /// The holder works on it.
        Processing = "processing",
        /// No device holds it: the next device is being selected.
        Reassigning = "reassigning",
        Completed = "completed",
        Failed = "failed",
    }
}

impl SeatStatus {
    /// A device holds it, or is asked.
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

    /// Final unless an operator retries it.
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

    /// Free and waiting for a device.
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
