"""BullMQ: jobs in Redis. No state machine, no history: a job is taken, run and marked completed."""
from harness.engine import NodeEngine

ENGINES = [
    NodeEngine(
        key="bullmq", package="bullmq", name="BullMQ", variant="2 workers × 64", workers=2,
        stores=("redis",), shapes=("single", "bulk"),
        durability="in Redis' memory when answered, on disk within a second (AOF everysec)",
        client="in process, no HTTP"),
]
