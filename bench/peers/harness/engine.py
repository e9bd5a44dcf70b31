"""What the runner has to know about an engine. Each folder's peer.py lists its own in ENGINES."""
import importlib.util
import json

from . import install, measure
from .processes import wait_until

# The order of the table.
FOLDERS = ["millstream", "restate", "dbos", "graphile-worker", "pg-boss", "bullmq", "celery"]


class Engine:
    """One engine with one set of settings.

    `key` is what `--only` takes (the folder's name selects all of its engines), `durability` is what
    is on disk when a submit is answered, `client` is how events get in.
    """
    key = name = variant = durability = client = ""
    folder = ""
    package = ""
    stores = ()
    shapes = ("single",)
    workers = 1

    def __init__(self, **fields):
        for field, value in fields.items():
            setattr(self, field, value)
        self.folder = self.folder or self.key

    def install(self):
        """Brings it onto this machine, or raises NotInstalled with the reason."""
        raise NotImplementedError

    def version(self):
        return ""

    def start(self, run):
        """Starts its processes with `run.engine(…)` and its client with `run.client(…)`."""
        raise NotImplementedError

    def settled(self, run):
        """Whether the store agrees that nothing is left to do; asked when every handler has finished."""
        return True

    def measure(self, shape, sizes, data_directory):
        """One run; an engine that brings its own load generator overrides it."""
        return measure.measure(self, shape, sizes, data_directory)


class NodeEngine(Engine):
    """worker.mjs as often as `workers` says, each until it says "ready"; producer.mjs as the client."""
    settings = {}
    client = "in process"

    def install(self):
        self.node, self.home = install.node(), install.npm(self.folder)

    def version(self):
        manifest = self.home / "node_modules" / self.package / "package.json"
        return json.loads(manifest.read_text())["version"]

    def start(self, run):
        env = {"SETTINGS": json.dumps(self.settings), "NODE_ENV": "production", "NODE_NO_WARNINGS": "1"}
        for index in range(self.workers):
            worker = run.engine(f"worker-{index + 1}", [self.node, "worker.mjs"], cwd=self.home, env=env)
            wait_until(lambda: "ready" in worker.log.read_text(), "the worker is ready", watch=[worker])
        run.client([self.node, "producer.mjs"], cwd=self.home, env=env)


def load_all():
    """Every engine of every folder, in the order of the table."""
    found = []
    for folder in FOLDERS:
        path = install.PEERS / folder / "peer.py"
        spec = importlib.util.spec_from_file_location(f"peer_{folder.replace('-', '_')}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += module.ENGINES
    return found
