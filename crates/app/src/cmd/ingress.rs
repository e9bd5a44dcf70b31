//! `millstream ingress`: the ingress of a fleet as a process.

use anyhow::Result;
use millstream_runtime::config::Config;
use millstream_runtime::roles::Openness;
use millstream_runtime::{ingress, signals, telemetry};

use crate::cli::IngressArgs;

pub(crate) async fn run(args: &IngressArgs, config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let openness = if args.insecure_no_auth { Openness::Insecure } else { Openness::Careful };
    let ingress = ingress::open(config, openness).await?;
    ingress.run(metrics, signals::shutdown_token()?).await
}
