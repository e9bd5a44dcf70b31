//! `millstream ingress`: the ingress of a fleet as a process.

use anyhow::Result;
use millstream_runtime::config::Config;
use millstream_runtime::roles::KeylessAccess;
use millstream_runtime::{ingress, signals, telemetry};

use crate::cli::IngressArgs;

pub(crate) async fn run(args: &IngressArgs, config: &Config) -> Result<()> {
    telemetry::start_logging(config)?;
    let metrics = telemetry::start_metrics()?;
    let openness = if args.insecure_no_auth { KeylessAccess::Insecure } else { KeylessAccess::Careful };
    let ingress = ingress::open_ingress(config, openness).await?;
    ingress.run(metrics, signals::shutdown_token()?).await
}
