"""Celery on Redis: the task queue most Python users know. Tasks, no state machine, no history."""
import json
import subprocess

from harness import install
from harness.engine import Engine


class Celery(Engine):
    folder, name, stores = "celery", "Celery", ("redis",)
    durability = "in Redis' memory when answered, on disk within a second (AOF everysec)"
    client = "in process (64 threads), no HTTP"

    def install(self):
        self.home = install.pip(self.folder)
        self.python = self.home / "venv" / "bin" / "python"

    def version(self):
        asked = "import importlib.metadata as m; print(m.version('celery'))"
        return subprocess.run([self.python, "-c", asked], capture_output=True, text=True).stdout.strip()

    def start(self, run):
        env = {"SETTINGS": json.dumps(self.settings)}
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        run.engine("worker", [self.python, "-m", "celery", "-A", "app", "worker", "-P", "prefork", "-c", "2", *quiet],
                   cwd=self.home, env=env)
        run.client([self.python, "producer.py"], cwd=self.home, env=env)


ENGINES = [
    Celery(key="celery-results", variant="prefork × 2, late acks, results kept", settings={"results": True}),
    Celery(key="celery-no-results", variant="prefork × 2, late acks, no results", settings={"results": False}),
]
