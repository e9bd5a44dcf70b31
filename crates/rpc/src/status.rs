//! Conversion of statuses.

use millstream_model::status::ExecutionStatus;
use millstream_workflow::graph::NodeStatus;

use crate::proto;

pub fn status_out(status: NodeStatus) -> proto::NodeStatus {
    match status {
        NodeStatus::Pending => proto::NodeStatus::Pending,
        NodeStatus::Running => proto::NodeStatus::Running,
        NodeStatus::Pass => proto::NodeStatus::Pass,
        NodeStatus::Fail => proto::NodeStatus::Fail,
        NodeStatus::TaskError => proto::NodeStatus::TaskError,
        NodeStatus::InfraError => proto::NodeStatus::InfraError,
        NodeStatus::Timeout => proto::NodeStatus::Timeout,
        NodeStatus::Crash => proto::NodeStatus::Crash,
        NodeStatus::Skipped => proto::NodeStatus::Skipped,
        NodeStatus::Filtered => proto::NodeStatus::Filtered,
    }
}

/// `None`: unspecified, or unknown to this build.
pub fn status_in(number: i32) -> Option<NodeStatus> {
    match proto::NodeStatus::try_from(number).ok()? {
        proto::NodeStatus::Unspecified => None,
        proto::NodeStatus::Pending => Some(NodeStatus::Pending),
        proto::NodeStatus::Running => Some(NodeStatus::Running),
        proto::NodeStatus::Pass => Some(NodeStatus::Pass),
        proto::NodeStatus::Fail => Some(NodeStatus::Fail),
        proto::NodeStatus::TaskError => Some(NodeStatus::TaskError),
        proto::NodeStatus::InfraError => Some(NodeStatus::InfraError),
        proto::NodeStatus::Timeout => Some(NodeStatus::Timeout),
        proto::NodeStatus::Crash => Some(NodeStatus::Crash),
        proto::NodeStatus::Skipped => Some(NodeStatus::Skipped),
        proto::NodeStatus::Filtered => Some(NodeStatus::Filtered),
    }
}

/// The workflow status of an execution that is a graph.
pub fn workflow_status_out(status: ExecutionStatus) -> proto::WorkflowStatus {
    match status {
        ExecutionStatus::Active => proto::WorkflowStatus::Running,
        ExecutionStatus::Paused => proto::WorkflowStatus::Paused,
        ExecutionStatus::Completed => proto::WorkflowStatus::Passed,
        ExecutionStatus::Failed => proto::WorkflowStatus::Failed,
        ExecutionStatus::Cancelled => proto::WorkflowStatus::Cancelled,
    }
}

/// `None`: unspecified, or unknown to this build.
pub fn workflow_status_in(number: i32) -> Option<ExecutionStatus> {
    match proto::WorkflowStatus::try_from(number).ok()? {
        proto::WorkflowStatus::Unspecified => None,
        proto::WorkflowStatus::Running => Some(ExecutionStatus::Active),
        proto::WorkflowStatus::Paused => Some(ExecutionStatus::Paused),
        proto::WorkflowStatus::Passed => Some(ExecutionStatus::Completed),
        proto::WorkflowStatus::Failed => Some(ExecutionStatus::Failed),
        proto::WorkflowStatus::Cancelled => Some(ExecutionStatus::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip() {
        for status in NodeStatus::ALL {
            assert_eq!(status_in(status_out(*status).into()), Some(*status));
            assert_eq!(status_out(*status).as_str_name(), format!("NODE_STATUS_{status}"));
        }
        for status in ExecutionStatus::ALL {
            assert_eq!(workflow_status_in(workflow_status_out(*status).into()), Some(*status));
        }
    }

    #[test]
    fn unknown_status_numbers_are_none() {
        for number in [0, -1, 11, i32::MAX] {
            assert_eq!(status_in(number), None);
        }
        assert_eq!(workflow_status_in(0), None);
        assert_eq!(workflow_status_in(6), None);
    }
}
