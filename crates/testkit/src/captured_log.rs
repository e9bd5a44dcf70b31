//! Captures the log of the code under test, for tests of warnings.
//!
//! Only events of the capturing thread are recorded: a test that uses it runs on a single-threaded runtime.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;

/// Collects the log of this thread until it is dropped.
#[derive(Debug)]
pub struct CapturedLog {
    text: LogBuffer,
    _collecting: DefaultGuard,
}

impl CapturedLog {
    pub fn start_capture() -> Self {
        let text = LogBuffer::default();
        let writer = text.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        Self { text, _collecting: tracing::subscriber::set_default(subscriber) }
    }

    /// The captured lines so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[derive(Debug, Default, Clone)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
