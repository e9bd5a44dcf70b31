//! The permission of every gRPC method: the table that the intake checks.

use millstream_core::permission::Permission;

/// Whether a method needs a key, and with which permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Served without a key.
    Anonymous,
    Needs(Permission),
}

/// Every served method, by its path.
pub(crate) const METHODS: &[(&str, Access)] = &[
    ("/millstream.v1.WorkflowService/CreateWorkflow", Access::Needs(Permission::PostEvents)),
    ("/millstream.v1.WorkflowService/GetWorkflow", Access::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/ListWorkflows", Access::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/UpdateWorkflow", Access::Needs(Permission::PostEvents)),
    ("/millstream.v1.WorkflowService/GetNode", Access::Needs(Permission::ReadData)),
    // An edit needs `PostEvents` as well, as `UpdateWorkflow` does.
    ("/millstream.v1.WorkflowService/UpdateNode", Access::Needs(Permission::ServeNodes)),
    ("/millstream.v1.WorkflowService/WatchWorkflow", Access::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/CancelWorkflow", Access::Needs(Permission::Operate)),
    ("/millstream.v1.WorkflowService/GetNodeLogs", Access::Needs(Permission::ReadData)),
    ("/millstream.v1.ExecutorService/RegisterExecutor", Access::Needs(Permission::RegisterExecutor)),
    ("/millstream.v1.ExecutorService/RetireExecutor", Access::Needs(Permission::RetireExecutor)),
    ("/millstream.v1.ExecutorService/ListExecutors", Access::Needs(Permission::ReadData)),
    ("/millstream.v1.TaskService/LeaseTasks", Access::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/HeartbeatTask", Access::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/CompleteTask", Access::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/FailTask", Access::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.DeviceService/RegisterDevice", Access::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/HeartbeatDevice", Access::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/WatchAssignments", Access::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/ActOnRun", Access::Needs(Permission::ActAsDevice)),
    ("/grpc.health.v1.Health/Check", Access::Anonymous),
    ("/grpc.health.v1.Health/Watch", Access::Anonymous),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Access::Anonymous),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Access::Anonymous),
];

/// `None` for an unknown method.
pub(super) fn access(path: &str) -> Option<Access> {
    METHODS.iter().find(|(known, _)| *known == path).map(|(_, access)| *access)
}

/// Whether a method answers with one message or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    Message,
    Stream,
}

/// The methods with a key that answer with a stream; a test compares them with the protocol.
const STREAMS: &[&str] = &[
    "/millstream.v1.WorkflowService/WatchWorkflow",
    "/millstream.v1.TaskService/LeaseTasks",
    "/millstream.v1.DeviceService/WatchAssignments",
];

pub(super) fn answers(path: &str) -> Answers {
    if STREAMS.contains(&path) { Answers::Stream } else { Answers::Message }
}

#[cfg(test)]
mod tests {
    use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn streams_are_those_of_the_protocol() {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
        let mut streams = Vec::new();
        for file in &files {
            for service in &file.service {
                for method in service.method.iter().filter(|method| method.server_streaming()) {
                    streams.push(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
                }
            }
        }
        let served = |path: &&String| access(path).is_some();
        let streams: Vec<&String> = streams.iter().filter(served).collect();
        assert_eq!(streams.len(), STREAMS.len(), "{streams:?}");
        assert!(streams.iter().all(|path| answers(path) == Answers::Stream), "{streams:?}");
    }
}
