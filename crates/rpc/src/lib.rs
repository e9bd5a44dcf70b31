//! Millstream over gRPC: messages, conversions, and the client of executors. No logic.
//!
//! The messages and services are documented in their source, for clients in any language:
//! `proto/millstream/v1`, beginning with `node.proto`. JSON is carried as text, in fields that end in
//! `_json`.
//!
//! | to do this | use |
//! |---|---|
//! | serve or call a service | [`proto`]: `workflow_service_server`, `node_service_client` and so on |
//! | answer reflection | [`proto::FILE_DESCRIPTOR_SET`] |
//! | decode a message | [`read`]: a value of a pure crate, or all its problems |
//! | encode engine state | [`mod@write`] |
//! | refuse | [`refusal`]: the one place that makes a `Status` |
//! | store a graph | [`blob`] |
//! | call an executor | [`client`] |
//! | evaluate expensive expressions, in the ingress and in the worker | [`evaluation_pool`] |
//! | cache compiled values by weight | [`weighed_cache`] |
//!
//! An executor in Rust:
//!
//! ```no_run
//! use millstream_rpc::proto::node_service_server::{NodeService, NodeServiceServer};
//! use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, NodeStatus};
//! use tonic::{Request, Response, Status};
//!
//! struct Echo;
//!
//! #[tonic::async_trait]
//! impl NodeService for Echo {
//!     async fn execute_node(
//!         &self,
//!         request: Request<ExecuteNodeRequest>,
//!     ) -> Result<Response<ExecuteNodeResponse>, Status> {
//!         let request = request.into_inner();
//!         Ok(Response::new(ExecuteNodeResponse {
//!             // An answer carries the ids of its request.
//!             workflow_id: request.workflow_id,
//!             node_id: request.node_id,
//!             status: NodeStatus::Pass.into(),
//!             results_json: request.input_json,
//!             ..Default::default()
//!         }))
//!     }
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let service = NodeServiceServer::new(Echo);
//! tonic::transport::Server::builder().add_service(service).serve("127.0.0.1:7500".parse()?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The executor then registers with `ExecutorService.RegisterExecutor`, and repeats the call as a
//! heartbeat.

pub mod proto;

pub mod read;
pub mod write;

pub mod length;
pub mod status;

mod address;
mod field_names;
mod path;
mod spec_messages;

pub mod blob;
pub mod graph_rows;
pub mod graph_start;
pub mod unreadable;

pub mod refusal;

pub mod evaluation_pool;
pub mod weighed_cache;

pub mod client;
