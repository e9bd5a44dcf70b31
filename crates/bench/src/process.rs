//! CPU time and memory of processes, from `/proc`; none on other systems than Linux.

use std::path::{Path, PathBuf};

/// Linux reports CPU time in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// The used fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ProcessStat {
    parent: u32,
    /// CPU seconds of the process.
    own: f64,
    /// CPU seconds of ended children.
    waited: f64,
}

/// CPU seconds of a process so far.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    read_stat(pid).map(|stat| stat.own)
}

/// Path of the CPU clock of the calling thread.
pub(crate) fn this_thread() -> Option<PathBuf> {
    let own = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(own).join("stat"))
}

/// CPU seconds so far of a thread of [`this_thread`].
pub(crate) fn thread_cpu_seconds(stat: &Path) -> Option<f64> {
    parse_stat(&std::fs::read_to_string(stat).ok()?).map(|stat| stat.own)
}

/// CPU seconds of a process and of all its children, ended ones included.
pub(crate) fn family_cpu_seconds(pid: u32) -> Option<f64> {
    let head = read_stat(pid)?;
    let children: f64 = child_processes(pid).filter_map(read_stat).map(|stat| stat.own + stat.waited).sum();
    Some(head.own + head.waited + children)
}

/// CPU seconds of the whole machine so far.
pub(crate) fn machine_cpu_seconds() -> Option<f64> {
    parse_machine(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Present memory of a process and its children in bytes, shared pages counted once; not the peak.
pub(crate) fn family_rss(pid: u32) -> Option<u64> {
    let memory = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some((status_kilobytes(&status, "RssAnon:")?, status_kilobytes(&status, "RssShmem:")?))
    };
    let all: Vec<(u64, u64)> = std::iter::once(pid).chain(child_processes(pid)).filter_map(memory).collect();
    let shared = all.iter().map(|(_, shared)| *shared).max()?;
    Some((all.iter().map(|(own, _)| own).sum::<u64>() + shared) * 1024)
}

/// Present memory of a process, in bytes.
pub(crate) fn process_rss(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status_kilobytes(&status, "VmRSS:").map(|kilobytes| kilobytes * 1024)
}

/// Peak memory of a process, in bytes.
pub(crate) fn peak_rss(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status_kilobytes(&status, "VmHWM:").map(|kilobytes| kilobytes * 1024)
}

/// Parent process, if it has this name and runs on this machine.
pub(crate) fn named_parent(pid: u32, name: &str) -> Option<u32> {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if command.trim().contains(name) { read_stat(pid).map(|stat| stat.parent) } else { None }
}

fn child_processes(of: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(move |pid| read_stat(*pid).is_some_and(|stat| stat.parent == of))
}

fn status_kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// All CPU time except idle and I/O wait.
fn parse_machine(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<f64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, hard, soft, ..] = fields[..] else { return None };
    Some((user + nice + system + hard + soft) / TICKS_PER_SECOND)
}

fn read_stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may contain any character, parentheses included: fields follow the last one.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        waited: (ticks(13)? + ticks(14)?) / TICKS_PER_SECOND,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_cpu_excludes_idle_time() {
        let text = "cpu  100 50 200 9999 888 7 3 0 0 0\ncpu0 1 1 1 1 1 1 1\n";
        assert_eq!(parse_machine(text), Some(3.6));
        assert_eq!(parse_machine("intr 1 2 3"), None);
        assert_eq!(parse_machine("cpu  1 2"), None);
    }

    #[test]
    fn reads_past_any_name() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 10 5 20 0 1 0";
        assert_eq!(parse_stat(text), Some(ProcessStat { parent: 7, own: 3.0, waited: 0.15 }));
        for text in ["", "42 (x", "42 (x) S 1", "42 (x) S y 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"] {
            assert_eq!(parse_stat(text), None, "{text}");
        }
    }
}
