//! The generated messages, clients and servers of the package `millstream.v1`.
#![allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::wildcard_enum_match_arm,
    reason = "generated"
)]

tonic::include_proto!("millstream.v1");

/// All public files with their imports, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/millstream.v1.bin"));
