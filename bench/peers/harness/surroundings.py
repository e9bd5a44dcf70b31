"""The surroundings of one run: its services, its engine, its client, and the record of handled events.

Everything lives in one directory and ends with the run; nothing is left behind.
"""
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time

from .processes import Process, machine_busy_seconds, wait_until
from .services import START

RECORD = struct.Struct("<3d")  # microseconds: sent, started, done
STALLED = 60.0


class Run:
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
            if self.producer:
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
