//! The kinds of input to a run, as named in its log.

use millstream_model::words;

words! {
    /// The kind of an input: used by the log, the transition table and refusals.
    RunInputKind {
        Create = "create",
        SelfClaim = "self_claim",
        Assign = "assign",
        /// The `assigning_*` transition is committed: part of the same commit.
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
        /// The waiting action is leased again.
        Adopt = "adopt",
        /// No device is left: follows from other inputs and triggers a notice.
        NobodyLeft = "nobody_left",
        /// Another seat has failed and, with it, the run.
        RunFailed = "run_failed",
    }
}
