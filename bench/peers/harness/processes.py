"""Processes that we start, stop and measure. Only these are ever signalled, by their own group."""
import os
import pathlib
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Ended(Exception):
    """A process that had to be running is not."""


class Process:
    """One started process with everything it forks, in a session of its own."""

    def __init__(self, role, command, log, env=None, cwd=None, stop_with=signal.SIGTERM, **popen):
        self.role, self.log, self.stop_with = role, pathlib.Path(log), stop_with
        with open(self.log, "ab") as output:
            popen.setdefault("stdout", output)
            popen.setdefault("stdin", subprocess.DEVNULL)
            self.child = subprocess.Popen(
                [str(part) for part in command], stderr=output, cwd=cwd, start_new_session=True,
                env={**os.environ, **{key: str(value) for key, value in (env or {}).items()}}, **popen)

    @property
    def pid(self):
        return self.child.pid

    def ended(self):
        """Whether it has ended. It is not reaped before `stop`: until then nobody else gets its id."""
        return self.child.returncode is not None or os.waitid(
            os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def require_running(self):
        if self.ended():
            raise Ended(f"{self.role} ended: {self.last_words()}")

    def last_words(self):
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(line.strip() for line in lines[-4:])[-500:] or "it said nothing"

    def stop(self, patience=15.0):
        """Asks it to end, then ends what is left of its group."""
        if self.child.returncode is not None:
            return
        if not self.ended():
            os.kill(self.pid, self.stop_with)
            deadline = time.monotonic() + patience
            while not self.ended() and time.monotonic() < deadline:
                time.sleep(0.01)
        os.killpg(self.pid, signal.SIGKILL)
        self.child.wait()

    def cpu_seconds(self):
        """Of the process, its descendants, and those descendants that have ended already."""
        total = 0.0
        for pid in descendants(self.pid):
            fields = stat(pid)
            if fields:
                total += sum(int(fields[at]) for at in (11, 12, 13, 14)) / TICKS
        return total

    def memory_mib(self):
        """Proportional set size: what several of them share (Postgres' buffers) is counted once."""
        total = 0
        for pid in descendants(self.pid):
            try:
                lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024


def stat(pid):
    """The fields of /proc/PID/stat from the state on, or None when it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(root):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := stat(entry)):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def machine_busy_seconds():
    """CPU seconds that the whole machine has spent on anything."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) / TICKS


def wait_until(condition, what, patience=60.0, step=0.02, watch=()):
    """Waits for a condition; a watched process that ends is the reason to stop waiting."""
    deadline = time.monotonic() + patience
    while not condition():
        for process in watch:
            process.require_running()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {patience:.0f} s")
        time.sleep(step)
