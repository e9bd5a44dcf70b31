//! An executor and a client in Python, on messages that are generated from the protos.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::mill::{Built, Mill};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Where the interpreter and the generated messages are.
fn python() -> PathBuf {
    let made = Command::new(top().join("scripts/python-grpc")).output().expect("run scripts/python-grpc");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

async fn a_generated_client_creates_and_watches_what_python_performs(built: Built) {
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let mut mill = Mill::idle(built).await;
    let interpreter = python.join("bin/python");
    let messages = python.join("generated").display().to_string();
    let script = top().join("examples/python/executor.py").display().to_string();
    let env = [("PYTHONPATH", messages.as_str())];
    mill.executors.push(mill.fleet.start_other("python", &interpreter, &["-u", &script], &env));

    let client = top().join("examples/executor/tests/graphs/client.py");
    let mut run = Command::new(interpreter);
    run.arg(client).env("PYTHONPATH", &messages).env("MILLSTREAM_URL", mill.fleet.url());
    let said = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
    assert!(said.status.success(), "{said:?}");
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["results"], json!({ "length": 7, "upstream": ["a"] }), "{said}");
    assert_eq!(said["executor"], "python");
    let of_one = ["node_scheduled", "node_dispatched", "node_completed"];
    let events: Vec<&str> = ["created"].into_iter().chain(of_one).chain(of_one).chain(["ended"]).collect();
    assert_eq!(said["events"], json!(events), "{said}");
    for (mistake, code, path) in [
        ("cycle", "INVALID_ARGUMENT", "nodes"),
        ("unknown", "INVALID_ARGUMENT", "nodes[0].parents[0]"),
        ("twice", "INVALID_ARGUMENT", "nodes[1].id"),
        ("many", "RESOURCE_EXHAUSTED", "nodes"),
    ] {
        let refusal = &said["refusals"][mistake];
        assert_eq!(refusal[0], code, "{mistake}: {refusal}");
        assert!(refusal[1].as_str().unwrap().contains(path), "{mistake}: {refusal}");
    }
}

in_both_modes! {
    a_generated_client_creates_and_watches_what_python_performs
}
