//! The methods of all services, as labels of metrics: a fixed list, read once from the descriptors.
//!
//! Clients choose the path of a call, and the routes of a service are wildcards. A path that is not a method
//! is counted as `other`, so that no request creates a series.

use std::collections::HashSet;
use std::sync::LazyLock;

use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic_reflection::pb::{v1, v1alpha};

/// The label of every path that is not a method.
const OTHER: &str = "other";

static METHODS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    [
        FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        v1::FILE_DESCRIPTOR_SET,
        v1alpha::FILE_DESCRIPTOR_SET,
    ]
    .into_iter()
    .flat_map(methods_of)
    .collect()
});

/// `package.Service/Method` for the path of a method, else `other`.
pub(super) fn label_of(path: &str) -> &'static str {
    METHODS.get(path.strip_prefix('/').unwrap_or(path)).map_or(OTHER, String::as_str)
}

fn methods_of(descriptors: &[u8]) -> Vec<String> {
    let Ok(set) = FileDescriptorSet::decode(descriptors) else { return Vec::new() };
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                methods.push(format!("{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_grpc_paths_share_one_label() {
        for method in [
            "millstream.v1.WorkflowService/CreateWorkflow",
            "millstream.v1.DeviceService/HeartbeatDevice",
            "millstream.v1.TaskService/LeaseTasks",
            "grpc.health.v1.Health/Watch",
            "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ] {
            assert_eq!(label_of(&format!("/{method}")), method);
        }
        for path in ["", "/", "/grpc.health.v1.Health/Chec", "/grpc.health.v1.Health/Check/", "//x"] {
            assert_eq!(label_of(path), "other", "{path}");
        }
    }
}
