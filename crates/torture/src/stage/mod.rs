//! The private fleet under test: services, processes, and the network between them.

mod disk;
mod process;
mod services;
mod settings;
mod watch;

pub use disk::TestDisk;
pub(crate) use process::bare_command;
pub use process::{StageProcess, StageRole};
pub use services::TortureStage;
pub use settings::{JUMP, POISON, RecoveryDeadlines};
pub use watch::{DeathCause, ProcessDeath, ProcessSupervisor};
