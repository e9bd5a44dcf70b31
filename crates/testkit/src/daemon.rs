//! One child process: its id, its captured output, and its end.
//!
//! The process does not outlive its owner (dropping it kills it, and [`crate::guard`] does so when the test
//! process dies). Signals use its own process id only. When a failing test drops it, the end of its output is
//! printed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::eventually::eventually;
use crate::guard::{self, ProcessEnding};

const PRINTED_OUTPUT: u64 = 24 * 1024;

#[derive(Debug)]
pub struct TestProcess {
    name: String,
    child: Child,
    output: PathBuf,
    ending: ProcessEnding,
    exited: Option<ExitStatus>,
}

impl TestProcess {
    /// Starts `command` with its output appended to `output`.
    pub fn start(name: &str, mut command: Command, output: &Path, ending: ProcessEnding) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(output)
            .unwrap_or_else(|error| panic!("open {}: {error}", output.display()));
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("clone a file handle"))
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("start {name} ({command:?}): {error}"));
        guard::watch_process(child.id(), ending);
        Self { name: name.into(), child, output: output.into(), ending, exited: None }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, or `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.exited.is_none() {
            self.exited = self.child.try_wait().expect("ask for the exit status of a child");
            if self.exited.is_some() {
                guard::forget_process(self.child.id(), self.ending);
            }
        }
        self.exited
    }

    /// Nothing happens to a process that has already ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_none() {
            let pid = i32::try_from(self.child.id()).expect("a process id fits");
            kill(Pid::from_raw(pid), signal).unwrap_or_else(|error| panic!("signal {}: {error}", self.name));
        }
    }

    /// Waits for the process to end by itself, or because of an earlier signal.
    pub async fn wait_for_exit(&mut self, deadline: Duration) -> ExitStatus {
        eventually(deadline, || {
            let seen = format!("{} is still running", self.name);
            std::future::ready(self.exit_status().ok_or(seen))
        })
        .await
    }

    /// SIGKILL, and the process is gone when this returns.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.reap_process();
    }

    /// The signal that leaves nothing behind, and the process is gone when this returns.
    pub fn end_process(&mut self) {
        match self.ending {
            ProcessEnding::Kill => self.signal(Signal::SIGKILL),
            ProcessEnding::Quit => self.signal(Signal::SIGQUIT),
        }
        self.reap_process();
    }

    /// The captured output, at most the last few kilobytes.
    pub fn output_text(&self) -> String {
        read_end(&self.output).unwrap_or_else(|error| format!("(no output: {error})"))
    }

    fn reap_process(&mut self) {
        if self.exited.is_none() {
            self.exited = Some(self.child.wait().expect("wait for a child"));
            guard::forget_process(self.child.id(), self.ending);
        }
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let before = self.exit_status();
        self.end_process();
        if std::thread::panicking() {
            println!("--- {} (pid {}, ended before the test: {before:?})", self.name, self.pid());
            println!("{}", self.output_text());
        }
    }
}

fn read_end(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(PRINTED_OUTPUT)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
