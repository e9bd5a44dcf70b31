"""BullMQ: jobs in Redis. No state machine, no history: a job is taken, run and marked completed.

With one worker and with two: on a small machine the second one takes its CPU from the client.
"""
from harness.engine import NodeEngine


class BullMq(NodeEngine):
    folder, package, name = "bullmq", "bullmq", "BullMQ"
    stores, shapes = ("redis",), ("single", "bulk")
    durability = "in Redis' memory when answered, on disk within a second (AOF everysec)"
    client = "in process, no HTTP"


ENGINES = [
    BullMq(key="bullmq-1", variant="1 worker × 64", workers=1),
    BullMq(key="bullmq-2", variant="2 workers × 64", workers=2),
]
