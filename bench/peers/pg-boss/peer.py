"""pg-boss: jobs in Postgres, kept as rows when they are completed.

Its two ways to be woken pull apart: NOTIFY has the latency, polling the throughput. Both are shown.
"""
from harness.engine import NodeEngine


class PgBoss(NodeEngine):
    folder, package, name = "pg-boss", "pg-boss", "pg-boss"
    stores, shapes, workers = ("postgres",), ("single", "bulk"), 2
    durability = "committed to Postgres when answered"
    client = "in process, no HTTP"

    def settled(self, run):
        return run.services["postgres"].one("select count(*) from pgboss.job where state < 'completed'") == "0"


ENGINES = [
    PgBoss(key="pg-boss-notify", variant="2 workers × 2 batches of 256, NOTIFY", settings={"notify": True}),
    PgBoss(key="pg-boss-poll", variant="2 workers × 2 batches of 256, polling 0.5 s", settings={"notify": False}),
]
