//! `millstream bench-worker` and `bench-dev`, which `millstream-bench` starts: the normal roles plus one Rust
//! function. The function does nothing: the bench measures the cost of calling it.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use millstream_model::attempt::AttemptOutcome;
use millstream_model::id::Name;
use millstream_runtime::config::Config;
use millstream_worker::{ActionCall, PerformCalls};

use crate::cli::DevArgs;

/// The name by which the definitions of `millstream-bench` call the function.
const WORK: &str = "work";

pub(crate) async fn run_bench_worker(config: &Config) -> Result<()> {
    super::worker::run(config, Some(echo_function()?)).await
}

pub(crate) async fn run_bench_dev(args: &DevArgs, config: &Config) -> Result<()> {
    super::dev::run(args, config, Some(echo_function()?)).await
}

fn echo_function() -> Result<Arc<dyn PerformCalls>> {
    Ok(Arc::new(EchoCalls(Name::parse(WORK).map_err(|error| anyhow!("the name {error}"))?)))
}

/// Returns its input.
#[derive(Debug)]
struct EchoCalls(Name);

#[async_trait::async_trait]
impl PerformCalls for EchoCalls {
    fn action_names(&self) -> Vec<Name> {
        vec![self.0.clone()]
    }

    async fn perform_call(&self, call: ActionCall) -> AttemptOutcome {
        AttemptOutcome::Success { result: call.input }
    }
}
