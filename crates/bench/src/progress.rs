//! Progress display: one bar on a terminal, otherwise no output.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether progress is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A bar on standard error, if that is a terminal.
    Shown,
    Hidden,
}

impl Progress {
    /// A bar for one part of the work.
    pub(crate) fn bar(self, what: &str, total: usize) -> Bar {
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
        Bar { bar }
    }
}

/// A progress bar, removed when dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(crate) fn set(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
