//! Generates the messages and services, without an installed protoc.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

/// Files that reflection serves. `state.proto` is internal.
const SERVICES: &[&str] = &[
    "millstream/v1/workflow_service.proto",
    "millstream/v1/node_service.proto",
    "millstream/v1/task_service.proto",
    "millstream/v1/device_service.proto",
];
const STATE: &str = "millstream/v1/state.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let public = protox::compile(SERVICES, ["proto"])?;
    fs::write(out.join("millstream.v1.bin"), public.encode_to_vec())?;

    let all = protox::compile(SERVICES.iter().chain([&STATE]), ["proto"])?;
    // Sorted maps make the encoding deterministic.
    tonic_prost_build::configure().btree_map(".").bytes(".").compile_fds(all)?;
    Ok(())
}
