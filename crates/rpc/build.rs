//! Generates the messages and services, without a protoc on the machine.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

/// What clients may ask about by reflection. `state.proto` is nobody's business.
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
    // Sorted maps: what is written twice is the same bytes twice.
    tonic_prost_build::configure().btree_map(".").bytes(".").compile_fds(all)?;
    Ok(())
}
