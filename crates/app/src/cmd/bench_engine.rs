//! `millstream bench-worker` and `bench-dev`, which `millstream bench` starts: the normal roles plus one Rust
//! function. The function does nothing: the bench measures the cost of calling it.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use millstream_bench::workload::WORK;
use millstream_core::action::Attempt;
use millstream_core::id::Name;
use millstream_runtime::config::Config;
use millstream_worker::{Call, PerformCalls};

use crate::cli::DevArgs;

pub(crate) async fn worker(config: &Config) -> Result<()> {
    super::worker::run(config, Some(function()?)).await
}

pub(crate) async fn dev(args: &DevArgs, config: &Config) -> Result<()> {
    super::dev::run(args, config, Some(function()?)).await
}

fn function() -> Result<Arc<dyn PerformCalls>> {
    Ok(Arc::new(Work(Name::parse(WORK).map_err(|error| anyhow!("the name {error}"))?)))
}

/// Returns its input.
#[derive(Debug)]
struct Work(Name);

#[async_trait::async_trait]
impl PerformCalls for Work {
    fn names(&self) -> Vec<Name> {
        vec![self.0.clone()]
    }

    async fn perform(&self, call: Call) -> Attempt {
        Attempt::Success { result: call.input }
    }
}
