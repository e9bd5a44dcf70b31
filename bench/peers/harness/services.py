"""Private PostgreSQL and Redis, durable, on loopback, with fresh data for every run.

Settings that decide what a figure means are written out here, also where they are the default.
"""
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess

from .processes import Process, wait_until

POSTGRES = {
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
    "shared_buffers": "512MB", "max_connections": "300", "max_wal_size": "4GB",
}
REDIS = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory-policy": "noeviction"}


def free_port():
    """Below the range that outgoing connections take, so that nobody picks it up in between."""
    for _ in range(100):
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError("no free port on loopback")


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def postgres_directory():
    """Where postgres and initdb are: on the path, or in Debian's versioned directories."""
    candidates = [pathlib.Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    candidates += sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)[::-1]
    return next((path for path in candidates if (path / "initdb").exists()), None)


def redis_binary():
    return shutil.which("redis-server") or shutil.which("valkey-server")


def versions():
    """What the services call themselves, or None where one is missing."""
    said = lambda command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    directory, redis = postgres_directory(), redis_binary()
    return {
        "postgres": said([directory / "postgres", "--version"]) if directory else None,
        "redis": said([redis, "--version"]) if redis else None,
    }


class Postgres:
    def __init__(self, directory):
        self.binaries, data, self.port = postgres_directory(), directory / "postgres", free_port()
        data.mkdir()
        owner = {}
        if os.getuid() == 0:  # Postgres refuses to run as root.
            names = {entry.pw_name for entry in pwd.getpwall()}
            account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(data, account.pw_uid, account.pw_gid)
            owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        made = subprocess.run(
            [self.binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"],
            cwd="/", capture_output=True, text=True, **owner)
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stderr.strip()}")
        settings = [part for key, value in POSTGRES.items() for part in ("-c", f"{key}={value}")]
        self.process = Process(
            "postgres", [self.binaries / "postgres", "-D", data, "-p", self.port, "-k", "", "-h", "127.0.0.1", *settings],
            directory / "postgres.log", cwd="/", stop_with=signal.SIGINT, **owner)
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        ready = [self.binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        wait_until(lambda: subprocess.run(ready).returncode == 0, "Postgres accepts connections", watch=[self.process])

    def one(self, query):
        """The single value that a query yields."""
        answer = subprocess.run(
            [self.binaries / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-c", query],
            capture_output=True, text=True, check=True)
        return answer.stdout.strip()


class Redis:
    def __init__(self, directory):
        data, self.port = directory / "redis", free_port()
        data.mkdir()
        settings = [part for key, value in REDIS.items() for part in (f"--{key}", value)]
        self.process = Process(
            "redis", [redis_binary(), "--port", self.port, "--bind", "127.0.0.1", "--dir", data, *settings],
            directory / "redis.log")
        self.url = f"redis://127.0.0.1:{self.port}/0"
        wait_until(lambda: listening(self.port), "Redis accepts connections", watch=[self.process])


START = {"postgres": Postgres, "redis": Redis}
