//! What can happen to a seat, in the words of its log.

use crate::status::words;

words! {
    /// An input by its name. The log, the table of transitions and refusals speak in these.
    Word {
        Create = "create",
        SelfClaim = "self_claim",
        Assign = "assign",
        /// What was begun in `assigning_*` is written: part of the same commit.
        Recorded = "recorded",
        NobodyViable = "nobody_viable",
        Accept = "accept",
        Decline = "decline",
        AssignmentTimeout = "assignment_timeout",
        Start = "start",
        ClaimExpiry = "claim_expiry",
        Heartbeat = "heartbeat",
        HeartbeatTimeout = "heartbeat_timeout",
        Progress = "progress",
        Complete = "complete",
        Fail = "fail",
        Release = "release",
        Abort = "abort",
        BackoffOver = "backoff_over",
        DeviceGone = "device_gone",
        Preempt = "preempt",
        OfflineClaim = "offline_claim",
        Pause = "pause",
        Resume = "resume",
        Cancel = "cancel",
        Retry = "retry",
        /// The action that waits for it is leased anew.
        Adopt = "adopt",
        /// No device is left: follows from other inputs, and is what a notifier looks for.
        NobodyLeft = "nobody_left",
        /// Another seat has failed for good, and the run with it.
        RunFailed = "run_failed",
    }
}
