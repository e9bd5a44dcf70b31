//! A shell process that outlives the test process and cleans up after it.
//!
//! Destructors do not run for statics, nor when a runner kills a test that hangs. So everything that could be
//! left behind (process ids, directories) is written to a `sh` that reads its standard input. When this
//! process ends, the pipe closes; the shell stops what is still listed and removes the directories. A
//! destructor that has already done the work takes its entry off the list, so that a reused process id is
//! never hit.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex};

const SCRIPT: &str = r#"
live=""; dirs=""; mounts=""
without() { kept=""; for entry in $1; do [ "$entry" = "$2" ] || kept="$kept $entry"; done; echo "$kept"; }
while read -r verb entry; do
  case "$verb" in
    process) live="$live $entry" ;;
    directory) dirs="$dirs $entry" ;;
    mount) mounts="$mounts $entry" ;;
    forget) live=$(without "$live" "$entry"); dirs=$(without "$dirs" "$entry"); mounts=$(without "$mounts" "$entry") ;;
  esac
done
for entry in $live; do kill -"${entry#*:}" "${entry%:*}" 2>/dev/null; done
for entry in $live; do
  tries=0
  while kill -0 "${entry%:*}" 2>/dev/null && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
  kill -KILL "${entry%:*}" 2>/dev/null
done
for entry in $mounts; do umount -l -- "$entry" 2>/dev/null; done
for entry in $dirs; do rm -rf -- "$entry"; done
"#;

static GUARD: LazyLock<Mutex<ChildStdin>> = LazyLock::new(|| Mutex::new(start_shell()));

#[expect(clippy::zombie_processes, reason = "it outlives this process by design")]
fn start_shell() -> ChildStdin {
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A process group of its own: a signal for the whole test must not end the cleanup shell.
        .process_group(0)
        .spawn()
        .expect("start the guard shell");
    shell.stdin.take().expect("stdin was piped")
}

/// The signal that ends a process without leaving anything in the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnding {
    Kill,
    /// Postgres: stop at once, children and shared memory included.
    Quit,
}

impl ProcessEnding {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Quit => "QUIT",
        }
    }
}

pub fn watch_process(pid: u32, ending: ProcessEnding) {
    write_entry("process", &format!("{pid}:{}", ending.name()));
}

pub fn forget_process(pid: u32, ending: ProcessEnding) {
    write_entry("forget", &format!("{pid}:{}", ending.name()));
}

/// The path must not contain white space, which holds for the directories this crate makes.
pub fn watch_directory(path: &Path) {
    write_entry("directory", &path.display().to_string());
}

/// A file system that was mounted here.
pub fn watch_mount(path: &Path) {
    write_entry("mount", &path.display().to_string());
}

pub fn forget_mount(path: &Path) {
    write_entry("forget", &path.display().to_string());
}

pub fn forget_directory(path: &Path) {
    write_entry("forget", &path.display().to_string());
}

fn write_entry(verb: &str, entry: &str) {
    let mut pipe = GUARD.lock().expect("guard pipe");
    writeln!(pipe, "{verb} {entry}").expect("write to the guard shell");
}
