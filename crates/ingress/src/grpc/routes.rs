//! Routes of the gRPC services, behind the layers that every call passes.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use millstream_rpc::proto::FILE_DESCRIPTOR_SET;
use millstream_rpc::proto::device_service_server::DeviceServiceServer;
use millstream_rpc::proto::executor_service_server::ExecutorServiceServer;
use millstream_rpc::proto::task_service_server::TaskServiceServer;
use millstream_rpc::proto::workflow_service_server::WorkflowServiceServer;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use super::devices::GrpcDeviceService;
use super::executors::GrpcExecutorService;
use super::health::GrpcHealthService;
use super::tasks::GrpcTaskService;
use super::workflows::GrpcWorkflowService;
use super::{admission, call_log};
use crate::state::IngressState;

/// Upper bound of a message of an anonymous call.
const ANONYMOUS_MESSAGE_BYTES: usize = 16 * 1024;
/// Upper bound of a `LeaseTasks` message. No budget is charged for messages of an open stream, and there
/// may be thousands of streams: the limit is what a valid request needs, 128 names of 128 bytes.
const LEASE_MESSAGE_BYTES: usize = 32 * 1024;

pub(crate) fn grpc_routes(door: &Arc<IngressState>) -> Router {
    let limits = &door.options.limits;
    let workflows = WorkflowServiceServer::from_arc(Arc::new(GrpcWorkflowService(door.clone())));
    let executors = ExecutorServiceServer::new(GrpcExecutorService(door.clone()));
    let tasks = TaskServiceServer::from_arc(Arc::new(GrpcTaskService(door.clone())));
    let devices = DeviceServiceServer::new(GrpcDeviceService(door.clone()));
    let api = Router::new()
        // A graph is larger than any other request.
        .route_service(
            "/millstream.v1.WorkflowService/CreateWorkflow",
            workflows.clone().max_decoding_message_size(limits.graph_bytes),
        )
        .route_service(
            "/millstream.v1.WorkflowService/{*method}",
            workflows.max_decoding_message_size(limits.message_bytes),
        )
        .route_service(
            "/millstream.v1.ExecutorService/{*method}",
            executors.max_decoding_message_size(limits.message_bytes),
        )
        .route_service(
            "/millstream.v1.TaskService/LeaseTasks",
            tasks.clone().max_decoding_message_size(LEASE_MESSAGE_BYTES),
        )
        .route_service(
            "/millstream.v1.TaskService/{*method}",
            tasks.max_decoding_message_size(limits.message_bytes),
        )
        .route_service(
            "/millstream.v1.DeviceService/{*method}",
            devices.max_decoding_message_size(limits.message_bytes),
        );
    let health =
        HealthServer::new(GrpcHealthService(door.clone())).max_decoding_message_size(ANONYMOUS_MESSAGE_BYTES);
    let anonymous = add_reflection(Router::new().route_service("/grpc.health.v1.Health/{*method}", health))
        .layer(from_fn_with_state(door.clone(), admission::limit_anonymous_calls));
    api.layer(from_fn_with_state(door.clone(), admission::limit_in_flight))
        .layer(from_fn_with_state(door.clone(), admission::authenticate_call))
        .merge(anonymous)
        .layer(from_fn_with_state(door.clone(), admission::check_call))
        .layer(from_fn_with_state(door.clone(), call_log::trace_call))
}

/// Both versions of the reflection protocol, because older clients only know `v1alpha`.
fn add_reflection(router: Router) -> Router {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => router
            .route_service(
                "/grpc.reflection.v1.ServerReflection/{*method}",
                v1.max_decoding_message_size(ANONYMOUS_MESSAGE_BYTES),
            )
            .route_service(
                "/grpc.reflection.v1alpha.ServerReflection/{*method}",
                v1alpha.max_decoding_message_size(ANONYMOUS_MESSAGE_BYTES),
            ),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "the gRPC reflection service is unavailable");
            router
        }
    }
}
