//! A watchdog shell that outlives this process and cleans up after it.
//!
//! Destructors do not run when a process is killed. So this process writes the ids of its children and the
//! directory of the run to a `sh` that reads its standard input. When this process ends, the pipe closes; the
//! shell then kills the children that are still listed and removes the directory. A reaped child is taken off
//! the list, so that a reused process id is never hit.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::{BenchError, BenchResult};

const SCRIPT: &str = r#"
live=""; directory=""
while read -r verb entry; do
  case "$verb" in
    watch) live="$live $entry" ;;
    forget) kept=""; for pid in $live; do [ "$pid" = "$entry" ] || kept="$kept $pid"; done; live=$kept ;;
    directory) directory=$entry ;;
  esac
done
for pid in $live; do kill -KILL "$pid" 2>/dev/null; done
[ -z "$directory" ] || rm -rf -- "$directory"
"#;

/// The run's directory and its watchdog shell.
#[derive(Debug)]
pub(crate) struct CleanupGuard {
    shell: Mutex<ChildStdin>,
    directory: PathBuf,
}

impl CleanupGuard {
    /// Creates a private directory and starts the shell.
    pub(crate) fn start() -> BenchResult<Self> {
        let name = format!("millstream-bench-{}", uuid::Uuid::new_v4().simple());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).map_err(BenchError::machine_error("make a directory for the run"))?;
        let pipe = start_shell()?;
        let guard = Self { shell: Mutex::new(pipe), directory };
        guard.write_entry("directory", &guard.directory.display().to_string())?;
        Ok(guard)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn watch_process(&self, pid: u32) -> BenchResult<()> {
        self.write_entry("watch", &pid.to_string())
    }

    pub(super) fn forget_process(&self, pid: u32) {
        // A shell that has ended has no list.
        let _ = self.write_entry("forget", &pid.to_string());
    }

    fn write_entry(&self, verb: &str, entry: &str) -> BenchResult<()> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(shell, "{verb} {entry}")
            .map_err(BenchError::machine_error("write to the shell that cleans up"))
    }
}

fn start_shell() -> BenchResult<ChildStdin> {
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A process group of its own: Ctrl-C must not end the watchdog.
        .process_group(0)
        .spawn()
        .map_err(BenchError::machine_error("start the shell that cleans up"))?;
    shell.stdin.take().ok_or_else(|| BenchError::Wrong("the shell has no input".to_owned()))
}
