//! Millstream over gRPC: the messages, what they mean to the engine, and how executors are called. No logic.
//!
//! The messages and services are described where they are written, for people of any language:
//! `proto/millstream/v1`, beginning with `node.proto`. JSON is carried as text, in fields that end in `_json`.
//!
//! | to do this | use |
//! |---|---|
//! | serve or call a service | [`proto`]: `workflow_service_server`, `node_service_client` and so on |
//! | answer reflection | [`proto::FILE_DESCRIPTOR_SET`] |
//! | understand what somebody sent | [`read`]: a value of the core, or everything that is wrong with it |
//! | tell what the engine knows | [`mod@write`] |
//! | refuse | [`refusal`]: the one place that makes a `Status` |
//! | store a graph | [`blob`] |
//! | call an executor | [`client`] |
//! | evaluate what is dear, in the ingress and in the worker | [`evaluation_pool`] |
//! | keep what was compiled | [`weighed_cache`] |
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
//!             // An answer says whose it is.
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
//! Then it makes itself known by `ExecutorService.RegisterExecutor`, again and again.

pub mod proto;

pub mod read;
pub mod write;

pub mod length;
pub mod status;

mod address;
mod field_names;
mod path;

pub mod blob;
pub mod graph_rows;
pub mod graph_start;
pub mod unreadable;

pub mod refusal;

pub mod evaluation_pool;
pub mod weighed_cache;

pub mod client;
