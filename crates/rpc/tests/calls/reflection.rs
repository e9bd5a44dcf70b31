//! The service descriptors for reflection.

use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::FileDescriptorSet;

#[test]
fn reflection_accepts_the_description() {
    let builder = tonic_reflection::server::Builder::configure();
    builder.register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET).build_v1().unwrap();
}

#[test]
fn tells_of_every_service_and_not_of_the_stored_form() {
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
