"""An external worker in plain Python: python3 worker.py, with MILLSTREAM_URL (and MILLSTREAM_KEY)."""

import json, os, socket, threading, time
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

URL = os.environ.get("MILLSTREAM_URL", "http://127.0.0.1:7400")
NAME = os.environ.get("WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}")


def label(task, progress):
    """The work itself: whatever it returns is the result, whatever it raises is retried."""
    for step in range(int(task["input"].get("seconds", 0) * 5)):
        progress({"step": step})
        time.sleep(0.2)
    return {"label": f"label of {task['input']['order_id']}", "attempt": task["attempt"]}


TASKS = {"label": label}


def call(path, body):
    key = os.environ.get("MILLSTREAM_KEY")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    with urlopen(Request(URL + path, json.dumps(body).encode(), headers), timeout=90) as answer:
        return json.load(answer)


def tell(task, act, **words):
    try:
        return call(f"/v1/tasks/{quote(task['key'], safe='')}/{act}", {"token": task["token"], **words})
    except HTTPError as refused:  # 409: the lease has passed on to somebody else
        print(task["key"], act, refused.read().decode(), flush=True)


def perform(task):
    over, told = threading.Event(), {}
    def beat():
        while not over.wait((task["heartbeat_ms"] or 30_000) / 3000):
            tell(task, "heartbeat", **told)
    threading.Thread(target=beat, daemon=True).start()
    try:
        tell(task, "complete", result=TASKS[task["type"]](task, lambda it: told.update(progress=it)))
    except Exception as error:
        tell(task, "fail", message=repr(error), then="retry")
    over.set()


def work(wish={"types": list(TASKS), "labels": ["printer"], "wait": 30, "worker": NAME}):
    while True:
        try:
            for task in call("/v1/tasks/lease", wish)["tasks"]:
                perform(task)
        except (URLError, OSError) as error:
            print("waiting for", URL, error, flush=True)
            time.sleep(1)

for _ in range(8):  # so many tasks at once
    threading.Thread(target=work).start()
