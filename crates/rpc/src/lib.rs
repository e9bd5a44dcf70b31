//! The gRPC words of Millstream.
mod address;
pub mod blob;
pub mod graph_rows;
pub mod graph_start;
pub mod client;
mod field_names;
pub mod length;
mod path;
pub mod proto;
pub mod read;
pub mod refusal;
pub mod status;
pub mod unreadable;
pub mod write;
