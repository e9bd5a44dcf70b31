//! The generated code is up to date with the protos. It is written anew by:
//! `MILLSTREAM_GENERATE=write cargo test -p millstream-rpc --test words`

use std::path::Path;
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

const COMMAND: &str = "MILLSTREAM_GENERATE=write cargo test -p millstream-rpc --test words";

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("proto");
    let public = protox::compile(SERVICES, [&proto]).unwrap();
    let all = protox::compile(SERVICES.iter().chain([&STATE]), [&proto]).unwrap();
    let out = tempfile::tempdir().unwrap();
    // Sorted maps make the encoding deterministic.
    let generator = tonic_prost_build::configure().btree_map(".").bytes(".").out_dir(out.path());
    generator.compile_fds(all).unwrap();

    let code = fs::read(out.path().join("millstream.v1.rs")).unwrap();
    for (name, fresh) in [("millstream.v1.inc", code), ("millstream.v1.bin", public.encode_to_vec())] {
        let path = root.join("generated").join(name);
        if env::var("MILLSTREAM_GENERATE").is_ok_and(|value| value == "write") {
            fs::write(&path, &fresh).unwrap();
        }
        let stored = fs::read(&path).unwrap_or_default();
        assert!(stored == fresh, "{} is out of date; run {COMMAND}", path.display());
    }
}
