//! The threads of a process, from its settings.

use tokio::runtime::{Builder, Runtime};

use crate::config::Config;

/// With one thread, that thread does all the work. A second thread would only wait for the main future, and
/// every arriving event would cross between the two.
pub fn build_runtime(config: &Config) -> std::io::Result<Runtime> {
    match worker_threads(config) {
        1 => Builder::new_current_thread().enable_all().build(),
        threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

fn worker_threads(config: &Config) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        threads => threads,
    }
}
