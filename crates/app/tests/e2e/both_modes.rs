//! One case, two modes.

/// Expands every named `async fn case(mode: Mode)` of the calling module into a test per mode.
macro_rules! both_modes {
    ($($case:ident),+ $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    Box::pin(super::$case(crate::world::EMBEDDED)).await;
                }
            )+
        }

        mod fleet {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    Box::pin(super::$case(crate::world::FLEET)).await;
                }
            )+
        }
    };
}
