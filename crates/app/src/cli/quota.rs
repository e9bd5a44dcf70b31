//! The words of `millstream quota`.

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  millstream quota get acme                                  what holds for the tenant, and where it comes from
  millstream quota set acme open_executions=50000 waits=1/2  in place of what was set before
  millstream quota set acme                                  back to the settings
  millstream quota usage acme                                what the tenant uses";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuotaArgs {
    #[command(subcommand)]
    pub command: QuotaCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show the quotas of a tenant, each with its source
    Get {
        /// The tenant's name
        #[arg(default_value = "default")]
        tenant: String,
    },
    /// Set quotas of a tenant, in place of those that were set before
    Set {
        /// The tenant's name
        tenant: String,
        /// NAME=VALUE: a number, a part like 3/4, a duration like 30m, or unlimited
        #[arg(value_name = "NAME=VALUE")]
        quotas: Vec<String>,
    },
    /// Show what a tenant uses
    Usage {
        /// The tenant's name
        #[arg(default_value = "default")]
        tenant: String,
    },
}
