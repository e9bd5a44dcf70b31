"""The task. With acks_late a task is acknowledged after it ran: killed workers lose nothing."""
import os

from celery import Celery

from probe import decide, now_us, record, settings

app = Celery("bench", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.update(
    task_acks_late=True, worker_prefetch_multiplier=64, task_ignore_result=not settings["results"],
    broker_pool_limit=64, redis_max_connections=200, worker_send_task_events=False)


@app.task(name="apply")
def apply(event):
    started = now_us()
    result = decide("new", event)
    record(event["sent_us"], started)
    return result
