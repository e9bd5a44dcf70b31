//! Graphs with real executor processes, in both modes: what runs when, what failures lead to, edits, crashes.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

/// Expands every named `async fn case(built: Built)` of the calling module into a test per mode.
macro_rules! in_both_modes {
    ($($case:ident)+) => {
        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Built::Embedded).await;
            })+
        }
        mod fleet {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Built::Fleet).await;
            })+
        }
    };
}

mod crowds;
mod edits;
mod failures;
mod kills;
mod mill;
mod outbound;
mod python;
mod shapes;
