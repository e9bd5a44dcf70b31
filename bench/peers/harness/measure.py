"""One run: fresh services, one engine, one submit shape; out comes a dictionary of figures.

    first event · warm-up · latency at 100/s (single only) · load · until the last event is done

Everything is timed by one clock (CLOCK_MONOTONIC, microseconds): the client stamps an event when
it sends it, the handler when its action begins and when it is done.
"""
import math
import time

from .processes import wait_until
from .surroundings import STALLED, Run

SINGLE_CLIENTS, BULK_CLIENTS, BULK_SIZE, RATE = 64, 8, 100, 100


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
