"""graphile-worker: jobs in Postgres. A finished job is deleted: nothing of it is kept."""
from harness.engine import NodeEngine


class GraphileWorker(NodeEngine):
    def settled(self, run):
        return run.services["postgres"].one("select count(*) from graphile_worker._private_jobs") == "0"


ENGINES = [
    GraphileWorker(
        key="graphile-worker", package="graphile-worker", name="graphile-worker",
        variant="2 workers × 64, local queue, batched completion", workers=2,
        stores=("postgres",), shapes=("single", "bulk"),
        durability="committed to Postgres when answered",
        client="in process, no HTTP"),
]
