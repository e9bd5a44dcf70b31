"""Millstream itself, driven by its own `millstream bench`: as a fleet of one ingress and one or two
workers, and embedded, which is one process that needs no services.

The release binary is built first, so that what is measured is what is in the tree;
PEERS_BINARY names another one.
"""
import json
import os
import pathlib
import resource
import subprocess
import threading

from harness import install
from harness.engine import Engine
from harness.measure import BULK_CLIENTS, BULK_SIZE, RATE, SINGLE_CLIENTS
from harness.processes import machine_busy_seconds
from harness.surroundings import Run

ROOT = install.PEERS.parent.parent
SUBMIT = {
    "single": ["--submit", "single", "--connections", SINGLE_CLIENTS],
    "bulk": ["--submit", "ndjson", "--batch", BULK_SIZE, "--connections", BULK_CLIENTS],
}


class Millstream(Engine):
    folder, stores, shapes = "millstream", ("postgres", "redis"), ("single", "bulk")

    def install(self):
        chosen = os.environ.get("PEERS_BINARY")
        if not chosen:
            packages = ["--package", "millstream", "--package", "millstream-bench"]
            install.run(["cargo", "build", "--release", "--locked", *packages], ROOT, "this tree's Millstream")
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.binary = pathlib.Path(chosen) if chosen else target / "release" / "millstream"
        # Without the program `millstream-bench` the help has no options.
        said = subprocess.run([self.binary, "bench", "--help"], capture_output=True, text=True)
        if said.returncode or "--workload" not in said.stdout:
            raise install.NotInstalled(f"{self.binary} has no `bench`")

    def version(self):
        said = subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout
        return said.split()[-1] if said else ""

    def start(self, run):
        """Nothing yet: `bench` starts the fleet."""

    def measure(self, shape, sizes, data_directory):
        with Run(self, data_directory) as run:
            found = {}
            if shape == "single":
                found |= latency(self.bench(
                    run, "--measure", "latency", "--rate", RATE, "--for", f"{max(1, sizes.latency // RATE)}s",
                    "--warmup", sizes.warm_up))
            with Watch(run) as watch:
                found |= load(self.bench(
                    run, "--measure", "throughput", "--workload", "many", *SUBMIT[shape], "--events", sizes.events,
                    "--warmup", sizes.warm_up))
            return found | watch.figures()

    def target(self, run):
        return ["--fleet", self.workers, "--database-url", run.services["postgres"].url,
                "--redis-url", run.services["redis"].url]

    def bench(self, run, *arguments):
        command = [self.binary, "bench", *self.target(run), "--json", *arguments]
        # With its default settings, whatever they are in the shell that started this.
        env = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
        env["TMPDIR"] = str(run.directory)
        said = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=run.directory, env=env)
        if said.returncode:
            raise RuntimeError(said.stderr.strip()[-500:] or f"bench ended with {said.returncode}")
        return json.loads(said.stdout)


class Embedded(Millstream):
    stores = ()

    def target(self, run):
        return ["--embedded"]


def latency(report):
    """Its stages in our words. "Started" is an HTTP action that has reached its target, "done" is a
    caller who has been told that the action is settled: a hop more than is asked of the peers."""
    stages = {figure["stage"]: figure["latency"] for figure in report["latency"]["figures"]}
    return {f"{ours}_{part}_ms": stages[theirs][f"{part}_ms"]
            for ours, theirs in (("started", "action_started"), ("done", "completed")) for part in ("p50", "p99")}


def load(report):
    """Throughput, CPU and memory in our words."""
    found = report["workloads"][0]["median"]
    cpu = {"engine": 0.0, "store": 0.0, "client": 0.0}
    memory = 0.0
    for usage in found["roles"]:
        kind = {"postgres": "store", "redis": "store", "generator": "client"}.get(usage["role"], "engine")
        cpu[kind] += usage["cpu_seconds"]
        memory += usage["peak_rss"] / 2**20 if kind == "engine" else 0.0
    return {
        "events": found["events"], "submit_per_s": found["submit_per_second"],
        "end_to_end_per_s": found["end_to_end_per_second"], "mib_engine": memory,
        **{f"cpu_s_{kind}": seconds for kind, seconds in cpu.items()},
    }


class Watch:
    """What `bench` does not say: the services' memory, and the CPU that others took meanwhile."""

    def __init__(self, run):
        self.stores = [service.process for service in run.services.values()]
        self.most, self.enough = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.enough.wait(0.5):
            self.most = max(self.most, sum(store.memory_mib() for store in self.stores))

    def spent(self):
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        stores = sum(store.cpu_seconds() for store in self.stores)
        return machine_busy_seconds() - ours.ru_utime - ours.ru_stime - stores

    def __enter__(self):
        self.began, self.before = os.times().elapsed, self.spent()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.thread.join()
        self.others = max(0.0, (self.spent() - self.before) / (os.times().elapsed - self.began))

    def figures(self):
        return {"mib_store": self.most, "cores_taken_by_others": self.others}


ENGINES = [
    Millstream(
        key=key, name="Millstream", variant=variant, workers=workers,
        durability="committed to Postgres when answered; Redis is a doorbell that may be lost",
        client="HTTP/1.1, 64 connections (bulk: NDJSON × 100 over 8)")
    for key, variant, workers in (
        ("millstream", "1 ingress, 1 worker", 1),
        ("millstream-2", "1 ingress, 2 workers", 2),
    )
] + [
    Embedded(
        key="millstream-embedded", name="Millstream", variant="embedded: one process, SQLite",
        durability="committed to SQLite (synchronous=FULL) when answered",
        client="HTTP/1.1, 64 connections (bulk: NDJSON × 100 over 8)"),
]
