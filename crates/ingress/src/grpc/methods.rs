//! The permission of every gRPC method: the table that the intake checks.

use millstream_model::permission::Permission;

/// Whether a method needs a key, and with which permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodAccess {
    /// Served without a key.
    Anonymous,
    Needs(Permission),
}

/// Every served method, by its path.
pub(crate) const METHODS: &[(&str, MethodAccess)] = &[
    ("/millstream.v1.WorkflowService/CreateWorkflow", MethodAccess::Needs(Permission::PostEvents)),
    ("/millstream.v1.WorkflowService/GetWorkflow", MethodAccess::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/ListWorkflows", MethodAccess::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/UpdateWorkflow", MethodAccess::Needs(Permission::PostEvents)),
    ("/millstream.v1.WorkflowService/GetNode", MethodAccess::Needs(Permission::ReadData)),
    // An edit needs `PostEvents` as well, as `UpdateWorkflow` does.
    ("/millstream.v1.WorkflowService/UpdateNode", MethodAccess::Needs(Permission::ServeNodes)),
    ("/millstream.v1.WorkflowService/WatchWorkflow", MethodAccess::Needs(Permission::ReadData)),
    ("/millstream.v1.WorkflowService/CancelWorkflow", MethodAccess::Needs(Permission::Operate)),
    ("/millstream.v1.WorkflowService/GetNodeLogs", MethodAccess::Needs(Permission::ReadData)),
    ("/millstream.v1.ExecutorService/RegisterExecutor", MethodAccess::Needs(Permission::RegisterExecutor)),
    ("/millstream.v1.ExecutorService/RetireExecutor", MethodAccess::Needs(Permission::RetireExecutor)),
    ("/millstream.v1.ExecutorService/ListExecutors", MethodAccess::Needs(Permission::ReadData)),
    ("/millstream.v1.TaskService/LeaseTasks", MethodAccess::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/HeartbeatTask", MethodAccess::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/CompleteTask", MethodAccess::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.TaskService/FailTask", MethodAccess::Needs(Permission::LeaseTasks)),
    ("/millstream.v1.DeviceService/RegisterDevice", MethodAccess::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/HeartbeatDevice", MethodAccess::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/WatchAssignments", MethodAccess::Needs(Permission::ActAsDevice)),
    ("/millstream.v1.DeviceService/ActOnRun", MethodAccess::Needs(Permission::ActAsDevice)),
    ("/grpc.health.v1.Health/Check", MethodAccess::Anonymous),
    ("/grpc.health.v1.Health/Watch", MethodAccess::Anonymous),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", MethodAccess::Anonymous),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", MethodAccess::Anonymous),
];

/// `None` for an unknown method.
pub(super) fn access_of_method(path: &str) -> Option<MethodAccess> {
    METHODS.iter().find(|(known, _)| *known == path).map(|(_, access)| *access)
}

/// Whether a method answers with one message or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodAnswer {
    Message,
    Stream,
}

/// The methods with a key that answer with a stream; a test compares them with the protocol.
const STREAMS: &[&str] = &[
    "/millstream.v1.WorkflowService/WatchWorkflow",
    "/millstream.v1.TaskService/LeaseTasks",
    "/millstream.v1.DeviceService/WatchAssignments",
];

pub(super) fn answer_of_method(path: &str) -> MethodAnswer {
    if STREAMS.contains(&path) { MethodAnswer::Stream } else { MethodAnswer::Message }
}

#[cfg(test)]
mod tests {
    use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn stream_methods_match_the_protocol() {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
        let mut streams = Vec::new();
        for file in &files {
            for service in &file.service {
                for method in service.method.iter().filter(|method| method.server_streaming()) {
                    streams.push(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
                }
            }
        }
        let served = |path: &&String| access_of_method(path).is_some();
        let streams: Vec<&String> = streams.iter().filter(served).collect();
        assert_eq!(streams.len(), STREAMS.len(), "{streams:?}");
        assert!(streams.iter().all(|path| answer_of_method(path) == MethodAnswer::Stream), "{streams:?}");
    }
}
