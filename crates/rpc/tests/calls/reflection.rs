//! The service descriptors for reflection.

use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::FileDescriptorSet;

#[test]
fn reflection_accepts_descriptor_set() {
    let builder = tonic_reflection::server::Builder::configure();
    builder.register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET).build_v1().unwrap();
}

#[test]
fn reflection_hides_the_storage_format() {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services: Vec<&str> =
        set.file.iter().flat_map(|file| &file.service).map(|service| service.name()).collect();
    assert_eq!(
        services,
        ["WorkflowService", "NodeService", "ExecutorService", "TaskService", "DeviceService"]
    );
    let messages: Vec<&str> =
        set.file.iter().flat_map(|file| &file.message_type).map(|it| it.name()).collect();
    assert!(messages.contains(&"Workflow") && !messages.contains(&"GraphState"), "{messages:?}");
}
