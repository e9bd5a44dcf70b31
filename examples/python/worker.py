"""An external worker in plain Python: python3 worker.py, with MILLSTREAM_URL (and MILLSTREAM_KEY)."""

import json, os, socket, threading, time
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

URL = os.environ.get("MILLSTREAM_URL", "http://127.0.0.1:7400")
NAME = os.environ.get("WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}")
LABELS = ["printer"]


def label(task, progress):
    """The work itself: whatever it returns is the result, whatever it raises is retried."""
    seconds = task["input"].get("seconds", 0)
    for step in range(int(seconds * 5)):
        progress({"step": step})
        time.sleep(0.2)
    return {"label": f"label of {task['input']['order_id']}", "attempt": task["attempt"]}


TASKS = {"label": label}


def call(path, body, timeout=90):
    headers = {"Content-Type": "application/json"}
    if os.environ.get("MILLSTREAM_KEY"):
        headers["Authorization"] = "Bearer " + os.environ["MILLSTREAM_KEY"]
    with urlopen(Request(URL + path, json.dumps(body).encode(), headers), timeout=timeout) as answer:
        return json.load(answer)


def perform(task):
    path, token, over = "/v1/tasks/" + quote(task["key"], safe=""), task["token"], threading.Event()
    told = {"token": token}

    def beat():
        while not over.wait((task["heartbeat_ms"] or 30_000) / 3000):
            call(path + "/heartbeat", told)

    threading.Thread(target=beat, daemon=True).start()
    try:
        result = TASKS[task["type"]](task, lambda progress: told.update(progress=progress))
        call(path + "/complete", {"token": token, "result": result})
    except HTTPError as refused:  # 409: the lease has passed on to somebody else
        print(task["key"], refused.read().decode(), flush=True)
    except Exception as error:
        call(path + "/fail", {"token": token, "message": repr(error), "then": "retry"})
    finally:
        over.set()


while True:
    try:
        wish = {"types": list(TASKS), "labels": LABELS, "max": 8, "wait": 30, "worker": NAME}
        for task in call("/v1/tasks/lease", wish)["tasks"]:
            threading.Thread(target=perform, args=(task,)).start()
    except (URLError, OSError) as error:
        print("waiting for", URL, error, flush=True)
        time.sleep(1)
