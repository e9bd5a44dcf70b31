"""Engines from their package registries, into a cache directory outside the tree.

Everything is installed once per version: a stamp with the text of the manifest says what is there.
Package scripts are not run: no engine here needs one.
"""
import functools
import os
import pathlib
import platform
import shutil
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent.parent
NODE_VERSION = "22.23.3"


class NotInstalled(Exception):
    """Why an engine cannot be had on this machine."""


def cache_directory():
    chosen = os.environ.get("PEERS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(chosen) if chosen else pathlib.Path(base) / "millstream-peers"


def run(command, cwd, what, **more):
    """Low priority, because an installation is never what is measured."""
    if not shutil.which(str(command[0])):
        raise NotInstalled(f"{command[0]} is not on the path")
    print(f"  installing {what}", file=sys.stderr, flush=True)
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    done = subprocess.run([*nice, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=1800, **more)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()]
        raise NotInstalled(f"{what}: {' '.join(lines[:2])[:300] or 'exit ' + str(done.returncode)}")


def once(home, stamp, action):
    """Runs `action` unless `home` was filled under the same stamp."""
    home.mkdir(parents=True, exist_ok=True)
    marker = home / ".installed"
    if not marker.exists() or marker.read_text() != stamp:
        marker.unlink(missing_ok=True)
        action()
        marker.write_text(stamp)


def place(source, home, *probes):
    """Copies a peer's scripts next to what was installed: modules are looked up from there."""
    for file in [*source.iterdir(), *(PEERS / "probe" / probe for probe in probes)]:
        if file.is_file():
            shutil.copy(file, home / file.name)


@functools.cache
def node():
    """A Node that every engine here accepts, itself from the registry; the machine's own may be older."""
    arch = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-{sys.platform}-{arch}"
    home = cache_directory() / "node"
    once(home, f"{package}@{NODE_VERSION}", lambda: (
        (home / "package.json").write_text("{}"),
        run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"{package}@{NODE_VERSION}"], home,
            f"Node {NODE_VERSION}")))
    return home / "node_modules" / package / "bin" / "node"


@functools.cache
def npm(folder):
    """The packages of a peer's package.json; answers with the directory to run from."""
    source, home = PEERS / folder, cache_directory() / folder
    home.mkdir(parents=True, exist_ok=True)
    place(source, home, "probe.mjs")
    once(home, (source / "package.json").read_text(), lambda: run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"], home,
        f"the packages of {folder}"))
    return home


@functools.cache
def pip(folder):
    """The packages of a peer's requirements.txt in a virtual environment of their own."""
    source, home = PEERS / folder, cache_directory() / folder
    stamp = (source / "requirements.txt").read_text() + sys.version

    def install():
        run([sys.executable, "-m", "venv", "--clear", home / "venv"], home, f"a virtual environment for {folder}")
        run([home / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "-r", source / "requirements.txt"],
            home, f"the packages of {folder}")

    once(home, stamp, install)
    place(source, home, "probe.py")
    return home


@functools.cache
def cargo(folder):
    """A peer's own small Cargo project; answers with the directory of its release binaries."""
    source, home = PEERS / folder, cache_directory() / folder
    home.mkdir(parents=True, exist_ok=True)
    run(["cargo", "build", "--release", "--locked", "--quiet"], source, f"{folder} (cargo build, minutes when new)",
        env={**os.environ, "CARGO_TARGET_DIR": str(home / "target")})
    return home / "target" / "release"
