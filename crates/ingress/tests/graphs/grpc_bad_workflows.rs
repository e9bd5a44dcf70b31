//! Workflows that are rejected over gRPC, and the faults that the caller gets.

use millstream_rpc::proto::{CreateWorkflowRequest, GetWorkflowRequest, Node, Workflow};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::bench::open_options;
use crate::grpc_client::{Clients, create, node, refused, workflow};
use crate::wire::serve;

fn fields(status: &Status) -> Vec<String> {
    let request = status.get_details_bad_request().unwrap();
    request.field_violations.into_iter().map(|it| it.field).collect()
}

#[tokio::test]
async fn grpc_workflow_fault_has_path() {
    let clients = Clients::open().await;
    let bad_json = Workflow { input_json: "{".to_owned(), ..workflow("", vec![node("a", &[])]) };
    let bad_condition = {
        let mut b = node("b", &["a"]);
        b.parents[0].condition = Some("results.a ++".to_owned());
        vec![node("a", &[]), b]
    };
    for (given, field) in [
        (workflow("", vec![node("a", &["b"]), node("b", &["a"])]), "nodes"),
        (workflow("", vec![node("a", &["x"])]), "nodes[0].parents[0]"),
        (workflow("", vec![node("a", &[]), node("a", &[])]), "nodes[1].id"),
        (workflow("", vec![]), "nodes"),
        (workflow("", vec![node("A", &[])]), "nodes[0].id"),
        (workflow("", bad_condition), "nodes[1].parents[0].condition"),
        (workflow("no spaces", vec![node("a", &[])]), "workflow_id"),
        (bad_json, "input_json"),
        (Workflow { metadata: None, ..workflow("", vec![node("a", &[])]) }, "metadata.name"),
    ] {
        let status =
            refused(clients.workflows().create_workflow(create(given)).await, Code::InvalidArgument, "");
        assert!(fields(&status).iter().any(|it| it == field), "{field} is not in {status:?}");
    }
    let nothing = clients.workflows().create_workflow(CreateWorkflowRequest::default()).await;
    refused(nothing, Code::InvalidArgument, "workflow");
}

#[tokio::test]
async fn grpc_node_count_is_limited() {
    let clients = Clients::open().await;
    let nodes: Vec<Node> = (0..100_000).map(|at| node(&format!("n{at}"), &[])).collect();
    let answer = clients.workflows().create_workflow(create(workflow("", nodes))).await;
    refused(answer, Code::ResourceExhausted, "20000");
}

#[tokio::test]
async fn grpc_message_size_is_limited() {
    let clients = Clients::open().await;
    let wide = |bytes: usize| {
        let mut wide = workflow("", vec![node("a", &[])]);
        wide.workflow_id = "wide".to_owned();
        wide.paused_reason = "x".repeat(bytes);
        wide
    };
    let large = clients.workflows().create_workflow(create(wide(17 * 1024 * 1024))).await;
    refused(large, Code::OutOfRange, "");
    // Larger than other messages may be; the field is output-only, so its content is ignored.
    clients.workflows().create_workflow(create(wide(9 * 1024 * 1024))).await.unwrap();
    let other = GetWorkflowRequest { workflow_id: "x".repeat(5 * 1024 * 1024), ..Default::default() };
    refused(clients.workflows().get_workflow(other).await, Code::OutOfRange, "");
}

#[tokio::test]
async fn grpc_requests_in_flight_are_limited() {
    let mut options = open_options();
    options.limits.in_flight = 0;
    let clients = Clients::of(serve(options).await).await;
    let answer = clients.workflows().get_workflow(GetWorkflowRequest::default()).await;
    refused(answer, Code::ResourceExhausted, "in flight");
    let mut options = open_options();
    options.limits.body_bytes_in_flight = 64 * 1024;
    let clients = Clients::of(serve(options).await).await;
    let mut wide = workflow("", vec![node("a", &[])]);
    wide.paused_reason = "x".repeat(128 * 1024);
    let answer = clients.workflows().create_workflow(create(wide)).await;
    refused(answer, Code::ResourceExhausted, "body_bytes_in_flight");
}

#[tokio::test]
async fn unknown_grpc_method_is_unimplemented() {
    let clients = Clients::open().await;
    for path in ["/millstream.v1.WorkflowService/Destroy", "/millstream.v1.Nothing/At"] {
        let mut grpc = tonic::client::Grpc::new(clients.channel.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<GetWorkflowRequest, GetWorkflowRequest>::default();
        let request = tonic::Request::new(GetWorkflowRequest::default());
        let answer = grpc.unary(request, path.parse().unwrap(), codec).await;
        refused(answer, Code::Unimplemented, "");
    }
}
