//! An executor: a gRPC server that performs nodes, and says again and again that it is there.
//!
//! ```text
//! millstream dev                                          # in one terminal
//! cargo run -p millstream-example-executor                # in another
//! millstream graph create examples/graphs/research.yaml --wait
//! ```

mod drill;
mod perform;
mod register;

use std::net::SocketAddr;

use anyhow::Result;
use clap::Parser;
use millstream_rpc::proto::node_service_server::NodeServiceServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

#[derive(Debug, Parser)]
#[command(about = "Performs nodes of Millstream graphs.")]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The engine's address.
    #[arg(long, default_value = "http://127.0.0.1:7400", env = "MILLSTREAM_URL")]
    millstream: String,
    /// An API key, where keys are needed.
    #[arg(long, env = "MILLSTREAM_KEY", default_value = "", hide_env_values = true)]
    key: String,
    /// Unique within the tenant.
    #[arg(long, default_value = "example")]
    name: String,
    /// What it can be; none: anything. May be repeated.
    #[arg(long)]
    role: Vec<String>,
    /// What it has. May be repeated.
    #[arg(long)]
    label: Vec<String>,
    /// How many nodes at once.
    #[arg(long, default_value_t = 100)]
    capacity: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let listener = TcpListener::bind(options.listen).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(register::again_and_again(options, address));
    let service = NodeServiceServer::new(perform::Performer);
    tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await?;
    Ok(())
}
