//! The private fleet under test: services, processes, and the network between them.

mod disk;
mod process;
mod services;
mod settings;
mod watch;

pub use disk::Disk;
pub(crate) use process::bare;
pub use process::{Process, Role};
pub use services::Stage;
pub use settings::{Deadlines, JUMP, POISON};
pub use watch::{Cause, Death, Supervisor};
