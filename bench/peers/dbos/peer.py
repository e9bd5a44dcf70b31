"""DBOS (TypeScript): workflows and steps as rows in Postgres, the closest peer on this store.

Through its queue with two workers, and direct: the process that takes the event runs the workflow.
"""
import json

from harness.engine import NodeEngine


class Dbos(NodeEngine):
    folder, package, name = "dbos", "@dbos-inc/dbos-sdk", "DBOS"
    stores, shapes = ("postgres",), ("single",)
    durability = "committed to Postgres when answered"

    def settled(self, run):
        return run.services["postgres"].one("select count(*) from dbos.workflow_status where status <> 'SUCCESS'") == "0"


class Direct(Dbos):
    def start(self, run):
        """The client's CPU and memory are the engine's here: there is nothing else."""
        env = {"SETTINGS": json.dumps(self.settings), "NODE_ENV": "production", "NODE_NO_WARNINGS": "1"}
        run.client([self.node, "direct.mjs"], cwd=self.home, env=env)
        run.engines.append(run.producer)


ENGINES = [
    Dbos(key="dbos-queue", variant="queue, 2 workers, polling 10 ms", workers=2, client="in process, no HTTP"),
    Direct(key="dbos-direct", variant="direct, 1 process", client="inside the engine's process, no HTTP"),
]
