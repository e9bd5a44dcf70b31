"""One run: fresh services, one engine, one submit shape; out comes a dictionary of figures.

    first event · warm-up · latency at 100/s (single only) · load · until the last event is done

Everything is timed by one clock (CLOCK_MONOTONIC, microseconds): the client stamps an event when
it sends it, the handler when its action begins and when it is done.
"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time

from .processes import Process, machine_busy_seconds, wait_until
from .services import START

SINGLE_CLIENTS, BULK_CLIENTS, BULK_SIZE, RATE = 64, 4, 100, 100
RECORD = struct.Struct("<3d")
STALLED = 60.0


class Run:
    """The processes and the records of one run; leaves nothing behind."""

    def __init__(self, engine, data_directory):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="millstream-peers-", dir=data_directory))
        self.directory.chmod(0o711)
        self.records = self.directory / "records"
        self.records.touch()
        self.engines, self.producer, self.services, self.seen = [], None, {}, 0
        self.description = engine

    def __enter__(self):
        try:
            for store in self.description.stores:
                self.services[store] = START[store](self.directory)
            self.description.start(self)
            self.listen()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        started = [self.producer, *reversed(self.engines), *(service.process for service in self.services.values())]
        for process in started:
            if process:
                process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self, more):
        urls = {f"{store.upper()}_URL": service.url for store, service in self.services.items()}
        return {**urls, "RECORDS": self.records, "DO_NOT_TRACK": "1", **(more or {})}

    def engine(self, role, command, env=None, cwd=None):
        process = Process(role, command, self.directory / f"{role}.log", env=self.environment(env), cwd=cwd)
        self.engines.append(process)
        return process

    def client(self, command, env=None, cwd=None):
        self.producer = Process("client", command, self.directory / "client.log", env=self.environment(env), cwd=cwd,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def listen(self):
        while True:
            line = self.producer.child.stdout.readline()
            if not line:
                wait_until(self.producer.ended, "the client, which closed its output, ends", patience=10)
                self.producer.require_running()
            if line.startswith("{"):
                return json.loads(line)

    def command(self, words):
        self.producer.child.stdin.write(words + "\n")
        self.producer.child.stdin.flush()
        answer = self.listen()
        if answer["errors"]:
            raise RuntimeError(f"{answer['errors']} submits failed: {answer['error']}")
        return answer

    def handled(self, n):
        """The records of the next `n` events, once all of them are there."""
        progress = [time.monotonic(), 0]

        def complete():
            count = self.records.stat().st_size // RECORD.size - self.seen
            if count > progress[1]:
                progress[:] = [time.monotonic(), count]
            if time.monotonic() - progress[0] > STALLED:
                raise TimeoutError(f"stalled: {count} of {n} events handled, none in the last {STALLED:.0f} s")
            return count >= n

        wait_until(complete, f"{n} events handled", patience=3600, step=0.01, watch=[*self.engines, self.producer])
        with open(self.records, "rb") as file:
            file.seek(self.seen * RECORD.size)
            found = list(RECORD.iter_unpack(file.read(n * RECORD.size)))
        self.seen += n
        return found

    def cpu(self):
        seconds = lambda processes: sum(process.cpu_seconds() for process in processes)
        stores = [service.process for service in self.services.values()]
        return {"engine": seconds(self.engines), "store": seconds(stores), "client": seconds([self.producer]),
                "machine": machine_busy_seconds()}

    def memory(self):
        stores = [service.process for service in self.services.values()]
        return {"mib_engine": sum(process.memory_mib() for process in self.engines),
                "mib_store": sum(process.memory_mib() for process in stores)}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)]


def submit(run, shape, n):
    words = {"single": f"single {n} {SINGLE_CLIENTS}", "bulk": f"bulk {n} {BULK_CLIENTS} {BULK_SIZE}"}
    return run.command(words[shape])


def measure(engine, shape, sizes, data_directory):
    with Run(engine, data_directory) as run:
        run.command("single 1 1")
        run.handled(1)
        submit(run, shape, sizes.warm_up)
        run.handled(sizes.warm_up)
        result = {"events": sizes.events}
        if shape == "single":
            result |= latency(run, sizes.latency)
        return result | load(run, engine, shape, sizes.events)


def latency(run, n):
    """From the moment of sending to the moment when the handler's action begins, and to when it is done."""
    run.command(f"open {n} {RATE}")
    records = run.handled(n)
    started = [(started - sent) / 1000 for sent, started, _ in records]
    done = [(done - sent) / 1000 for sent, _, done in records]
    return {"started_p50_ms": percentile(started, 0.5), "started_p99_ms": percentile(started, 0.99),
            "done_p50_ms": percentile(done, 0.5), "done_p99_ms": percentile(done, 0.99)}


def load(run, engine, shape, n):
    before, began = run.cpu(), time.monotonic()
    answer = submit(run, shape, n)
    last = max(done for _, _, done in run.handled(n))
    if not engine.settled(run):
        wait_until(lambda: engine.settled(run), "the store has settled everything", patience=STALLED, step=0.005)
        last = time.monotonic_ns() / 1000
    after, wall = run.cpu(), time.monotonic() - began
    spent = {role: after[role] - before[role] for role in before}
    others = spent["machine"] - spent["engine"] - spent["store"] - spent["client"]
    return {
        "submit_per_s": n / (answer["last_us"] - answer["first_us"]) * 1e6,
        "end_to_end_per_s": n / (last - answer["first_us"]) * 1e6,
        "cpu_s_engine": spent["engine"], "cpu_s_store": spent["store"], "cpu_s_client": spent["client"],
        "cores_taken_by_others": max(0.0, others / wall), **run.memory(),
    }
