//! Expands the list of cases into tests.

/// One module per topic, one test per case.
#[doc(hidden)]
#[macro_export]
macro_rules! expand_conformance_tests {
    ($bench:expr; $($topic:ident { $($case:ident,)+ })+) => {
        $(
            mod $topic {
                use super::*;
                $(
                    #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let bench: $crate::ConformanceBench = $bench;
                        $crate::$topic::$case(bench).await;
                    }
                )+
            }
        )+
    };
}
