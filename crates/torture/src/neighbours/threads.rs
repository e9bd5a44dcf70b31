//! The threads of the torture itself. What is measured and what attacks do not share one, and attackers run at the
//! lowest priority: in the field their processor time is that of other machines, while here it would be taken from the
//! fleet under test.

use tokio::runtime::{Builder, Runtime};

/// The increment of niceness that gives a thread the lowest priority.
const LOWEST_PRIORITY: i32 = 19;
const ATTACKING_THREADS: usize = 2;

/// Threads that run tasks until they are dropped.
#[derive(Debug)]
pub(super) struct TaskThreads(Option<Runtime>);

impl TaskThreads {
    /// One thread for the honest tenant, its target and the probes.
    pub(super) fn measuring() -> Self {
        Self::start(Builder::new_multi_thread().worker_threads(1))
    }

    /// Threads for attackers and their target. A process must not be started here: it would have their priority.
    pub(super) fn attacking() -> Self {
        Self::start(Builder::new_multi_thread().worker_threads(ATTACKING_THREADS).on_thread_start(|| {
            rustix::process::nice(LOWEST_PRIORITY).expect("a thread may lower its priority");
        }))
    }

    fn start(builder: &mut Builder) -> Self {
        Self(Some(builder.enable_all().build().expect("a runtime")))
    }

    pub(super) async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref().expect("a runtime until the end");
        runtime.spawn(task).await.expect("no task of the torture panics")
    }
}

impl Drop for TaskThreads {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside of another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> i32 {
        rustix::process::nice(0).unwrap()
    }

    #[tokio::test]
    async fn attackers_have_the_lowest_priority_and_measuring_has_not() {
        let own = niceness();
        assert_eq!(TaskThreads::attacking().run(async { niceness() }).await, LOWEST_PRIORITY);
        assert_eq!(TaskThreads::measuring().run(async { niceness() }).await, own);
        assert_eq!(niceness(), own);
    }
}
