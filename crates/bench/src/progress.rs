//! Progress display: one bar on a terminal, otherwise no output.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether progress is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchProgress {
    /// A bar on standard error, if that is a terminal.
    Shown,
    Hidden,
}

impl BenchProgress {
    /// A bar for one part of the work.
    pub(crate) fn start_bar(self, what: &str, total: usize) -> BenchProgressBar {
        let bar = match self {
            Self::Hidden => ProgressBar::hidden(),
            Self::Shown => {
                let bar = ProgressBar::new(total as u64);
                bar.enable_steady_tick(Duration::from_millis(250));
                bar
            }
        };
        let style = ProgressStyle::with_template("  {msg:32} {bar:32.green} {pos}/{len}  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(what.to_owned());
        BenchProgressBar { bar }
    }
}

/// A progress bar, removed when dropped.
#[derive(Debug)]
pub(crate) struct BenchProgressBar {
    bar: ProgressBar,
}

impl BenchProgressBar {
    pub(crate) fn set_position(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for BenchProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
