//! The generated messages, clients and servers of the package `millstream.v1`.
//!
//! The files in `generated` are made from `proto`, by `tests/words/generated_code.rs`, which fails when they are
//! not up to date. A build compiles no generator ([rationale](../../../docs/decisions/generated-code.md)).
#![allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::wildcard_enum_match_arm,
    reason = "generated"
)]

include!("../generated/millstream.v1.inc");

/// All public files with their imports, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../generated/millstream.v1.bin");
