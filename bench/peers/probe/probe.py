"""What every Python peer shares: the clock, the record of handled events, and the client's loops.

The same contract as probe.mjs: CLOCK_MONOTONIC in microseconds, records of (sent, started, done)
appended to the file in RECORDS, commands on standard input and one line of JSON for each.
"""
import json
import math
import os
import struct
import sys
import threading
import time

settings = json.loads(os.environ.get("SETTINGS", "{}"))
_records = None


def now_us():
    return time.monotonic_ns() // 1000


def event(i):
    return {"i": i, "sent_us": now_us(), "kind": "paid", "amount": 1234}


def decide(state, event):
    if state == "new" and event["kind"] == "paid":
        return {"state": "paid", "amount": event["amount"]}
    return {"state": state}


def record(sent, started):
    """One appending write: several worker processes share the file."""
    global _records
    if _records is None:
        _records = os.open(os.environ["RECORDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_records, struct.pack("<3d", sent, started, now_us()))


def serve(submit):
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        n, x = (int(number) for number in numbers[:2])
        errors = []
        first = now_us()
        {"single": closed_loop, "open": open_loop}[command](n, x, lambda i: submit(event(i)), errors)
        answer = {"first_us": first, "last_us": now_us(), "errors": len(errors)}
        print(json.dumps(answer | ({"error": errors[0]} if errors else {})), flush=True)


def attempt(act, i, errors):
    try:
        act(i)
    except Exception as error:  # noqa: BLE001  (whatever the client library raises is one failed submit)
        errors.append(repr(error))


def closed_loop(n, clients, act, errors):
    numbers, lock = iter(range(n)), threading.Lock()

    def client():
        while True:
            with lock:
                i = next(numbers, None)
            if i is None:
                return
            attempt(act, i, errors)

    in_threads(clients, lambda _: client())


def open_loop(n, rate, act, errors, senders=16):
    """Senders in turn, so that one slow submit does not hold up the next ones."""
    began = time.monotonic()

    def sender(first):
        for i in range(first, n, senders):
            time.sleep(max(0.0, began + i / rate - time.monotonic()))
            attempt(act, i, errors)

    in_threads(min(senders, math.ceil(n)), sender)


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
