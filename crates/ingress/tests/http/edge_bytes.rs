//! Mutated byte streams of HTTP/1.1, HTTP/2 and gRPC, some with a valid key: nothing is a 5xx, and the ingress lives.
//! `scripts/fuzz edge` does the same to a process, for as long as one likes.

use metrics_exporter_prometheus::PrometheusBuilder;
use millstream_core::status::Role;
use millstream_fuzz::edge::{EdgeInputs, is_server_error, throw};
use millstream_ingress::{AuthMode, IngressOptions};

use crate::bench::{Bench, deps, open_options};
use crate::wire::serve_on;

const INPUTS: usize = 300;
const THREADS: usize = 6;

#[tokio::test]
async fn hostile_bytes_are_never_answered_with_5xx() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let deps = deps();
    let mut bench = Bench::open();
    bench.stores = deps.stores.clone();
    bench.key("ms_a", "default", Role::Admin).await;
    let door = serve_on(deps, IngressOptions { auth: AuthMode::Keys, ..open_options() }).await;
    let mut throwing = tokio::task::JoinSet::new();
    for thread in 0..THREADS {
        let address = door.address;
        throwing.spawn_blocking(move || {
            let mut inputs = EdgeInputs::seeded(thread as u64, "ms_a");
            for n in 0..INPUTS / THREADS {
                let input = inputs.next_input();
                let answer = throw(address, &input).unwrap();
                let (sent, said) = (String::from_utf8_lossy(&input), String::from_utf8_lossy(&answer));
                assert!(
                    !is_server_error(&answer),
                    "seed {thread}, input {n}: {sent:?} was answered {said:?}"
                );
            }
        });
    }
    while let Some(ended) = throwing.join_next().await {
        ended.unwrap();
    }
    let answer = door.request("GET", "/readyz", "", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let page = recorder.handle().render();
    assert!(page.contains("method=\"POST\"") && page.contains("code=\"Ok\""), "nothing got through:\n{page}");
    // `Internal` is what gRPC prescribes for a message that cannot be decoded.
    let failed = ["status=\"5", "code=\"Unknown\"", "code=\"DataLoss\"", "code=\"Unavailable\""];
    let failed: Vec<&str> =
        page.lines().filter(|line| failed.iter().any(|code| line.contains(code))).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
