"""Restate: a durable execution server in Rust with its own log; the service is a process beside it.

The closest peer in what it promises: an event reaches a keyed object, its action and its new state
are journalled, and nothing is lost when a process dies. Partitions: its default of 24, and 4, which
suits a small machine better.
"""
import json
import urllib.error
import urllib.request

from harness import install
from harness.engine import Engine
from harness.processes import wait_until
from harness.services import free_port, listening


def answered(url, body=None):
    request = urllib.request.Request(url, data=json.dumps(body).encode() if body else None,
                                     headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status < 300
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class Restate(Engine):
    folder, name = "restate", "Restate"
    durability = "in its log when answered, written with fsync (its default)"
    client = "HTTP/1.1, 64 connections, one-way calls"
    sdk, partitions = "", None

    def install(self):
        self.home = install.npm("restate")
        found = list(self.home.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
        if not found:
            raise install.NotInstalled("its registry has no server for this platform")
        self.server = found[0]
        self.rust = install.cargo("restate/rust")  # the client, and the service of the Rust SDK
        self.node = install.node() if self.sdk == "TypeScript" else None

    def version(self):
        manifest = self.home / "node_modules/@restatedev/restate-server/package.json"
        return json.loads(manifest.read_text())["version"]

    def start(self, run):
        ingress, admin, node, service = free_port(), free_port(), free_port(), free_port()
        settings = {
            "RESTATE_INGRESS__BIND_PORT": ingress, "RESTATE_ADMIN__BIND_PORT": admin, "RESTATE_LOG_FILTER": "warn",
            "RESTATE_DISABLE_TELEMETRY": "true",
            **({"RESTATE_DEFAULT_NUM_PARTITIONS": self.partitions} if self.partitions else {}),
        }
        server = run.engine("server", [
            self.server, "--no-logo", "--node-name", "one", "--base-dir", run.directory / "restate",
            "--bind-ip", "127.0.0.1", "--bind-port", node, "--listen-mode", "tcp"], env=settings)
        if self.sdk == "Rust":
            run.engine("service", [self.rust / "service", service, run.records])
        else:
            env = {"SETTINGS": json.dumps({"port": service}), "NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"}
            run.engine("service", [self.node, "service.mjs"], cwd=self.home, env=env)
        wait_until(lambda: answered(f"http://127.0.0.1:{admin}/health"), "Restate is healthy", watch=[server])
        wait_until(lambda: listening(service), "the service listens", watch=run.engines)
        target = {"uri": f"http://127.0.0.1:{service}"}
        wait_until(lambda: answered(f"http://127.0.0.1:{admin}/deployments", target), "Restate knows the service",
                   watch=run.engines)
        wait_until(lambda: answered(f"http://127.0.0.1:{ingress}/restate/health"), "its ingress is ready",
                   watch=run.engines)
        run.client([self.rust / "load", f"127.0.0.1:{ingress}"])


ENGINES = [
    Restate(key="restate-rust", variant="Rust SDK, 24 partitions", sdk="Rust"),
    Restate(key="restate-rust-4", variant="Rust SDK, 4 partitions", sdk="Rust", partitions=4),
    Restate(key="restate-ts", variant="TypeScript SDK, 24 partitions", sdk="TypeScript"),
    Restate(key="restate-ts-4", variant="TypeScript SDK, 4 partitions", sdk="TypeScript", partitions=4),
]
