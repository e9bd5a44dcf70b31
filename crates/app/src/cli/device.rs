//! The words of `millstream device`.

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  millstream device list                           known devices, their load, when last heard of
  millstream device get phone-7                    one device, and what it has or is asked about
  millstream device pause phone-7                  nothing new is given to it; it keeps what it has
  millstream device resume phone-7
  millstream device remove phone-7                 forget it; what it has goes to others";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    pub command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// List devices in the order of their ids
    List {
        /// At most this many
        #[arg(long, default_value_t = 200)]
        limit: usize,
    },
    /// Show a device, and what it has or is asked about
    Get {
        /// The device's id
        device: String,
    },
    /// Take a device out of the choice; it keeps what it has
    Pause {
        /// The device's id
        device: String,
    },
    /// Take a device back into the choice
    Resume {
        /// The device's id
        device: String,
    },
    /// Forget a device; what it has goes to others
    Remove {
        /// The device's id
        device: String,
    },
}
