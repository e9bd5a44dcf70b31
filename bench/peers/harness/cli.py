"""The command: which engines, how many events and rounds, and where the result goes."""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

from . import check, install, services, table
from .engine import load_all


@dataclasses.dataclass
class Sizes:
    events: int
    warm_up: int
    latency: int


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` stops what was started
    options = parse()
    engines = chosen(load_all(), options.only)
    if options.check:
        return check.main(engines)
    if options.list:
        for engine in engines:
            print(f"{engine.key:22} {engine.name}, {engine.variant} [{', '.join(engine.shapes)}]")
        return 0
    if not sys.platform.startswith("linux"):
        sys.exit("processes are measured through /proc: this needs Linux")
    sizes = Sizes(300, 100, 100) if options.quick else Sizes(30_000, 3_000, 1_500)
    if options.events:
        sizes = dataclasses.replace(sizes, events=options.events, warm_up=min(sizes.warm_up, options.events))
    rounds = options.rounds or (1 if options.quick else 3)
    machine = look_around()
    ready, absent = installed(engines)
    if options.install_only:
        for engine in ready:
            print(f"installed: {engine.name} {engine.version()}, {engine.variant}")
        for engine, why in absent:
            print(f"not installed: {engine}: {why}")
        return 0
    rows = in_rounds(ready, sizes, rounds, machine["data_directory"])
    report(rows, absent, sizes, rounds, machine, options.json)
    return 1 if any(row["failed"] for row in rows) else 0


def parse():
    parser = argparse.ArgumentParser(prog="bench/peers/run", description=sys.modules["__main__"].__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="A,B", help="engines or folders, as --list names them")
    parser.add_argument("--events", type=int, metavar="N", help="events under load per engine and shape")
    parser.add_argument("--rounds", type=int, metavar="R", help="rounds; the table has the medians")
    parser.add_argument("--quick", action="store_true", help="a smoke: 300 events, one round")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--list", action="store_true", help="name the engines and stop")
    parser.add_argument("--check", action="store_true", help="look for mistakes without installing anything")
    parser.add_argument("--install-only", action="store_true", help="install and stop")
    return parser.parse_args()


def chosen(engines, only):
    if not only:
        return engines
    wanted = only.split(",")
    unknown = [word for word in wanted if not any(word in (engine.key, engine.folder) for engine in engines)]
    if unknown:
        sys.exit(f"no engine {', '.join(unknown)}; --list names them")
    return [engine for engine in engines if engine.key in wanted or engine.folder in wanted]


def look_around():
    """Where this runs, as far as it decides what the figures mean."""
    # Not the usual temporary directory: that is often kept in memory, where fsync costs nothing.
    directory = pathlib.Path(os.environ.get("PEERS_DATA", "/var/tmp"))
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        sys.exit(f"{directory} is kept in memory ({kind}), fsync would cost nothing: set PEERS_DATA")
    return {"data_directory": str(directory), "file_system": kind, "cores": os.cpu_count(),
            "kernel": platform.release(), **services.versions()}


def installed(engines):
    ready, absent, missing = [], [], {store for store, version in services.versions().items() if not version}
    for engine in engines:
        try:
            if needs := missing & set(engine.stores):
                raise install.NotInstalled(f"needs {', '.join(sorted(needs))}")
            engine.install()
            ready.append(engine)
        except (install.NotInstalled, OSError, subprocess.SubprocessError) as error:
            absent.append((f"{engine.name}, {engine.variant}", str(error)))
    return ready, absent


def in_rounds(engines, sizes, rounds, data_directory):
    """Round by round, not engine by engine: what the machine does meanwhile then hits all alike."""
    rows = [{"key": engine.key, "folder": engine.folder, "name": engine.name, "variant": engine.variant, "shape": shape,
             "version": engine.version(), "durability": engine.durability, "client": engine.client, "engine": engine,
             "rounds": [], "failed": None} for engine in engines for shape in engine.shapes]
    for number in range(1, rounds + 1):
        for row in rows:
            progress = f"round {number}/{rounds}: {row['name']}, {row['variant']} ({row['shape']})"
            print(progress, end=" … ", file=sys.stderr, flush=True)
            try:
                one = row["engine"].measure(row["shape"], sizes, data_directory)
                row["rounds"].append(one)
                print(f"{one['end_to_end_per_s']:,.0f}/s", file=sys.stderr, flush=True)
            except Exception as error:  # noqa: BLE001  (one engine's trouble is a line in the table)
                row["failed"] = f"round {number}: {type(error).__name__}: {' '.join(str(error).split())}"
                print(row["failed"], file=sys.stderr, flush=True)
    for row in rows:
        row["median"] = table.median(row["rounds"]) if row["rounds"] else None
        del row["engine"]
    return rows


def report(rows, absent, sizes, rounds, machine, destination):
    print(f"\n{sizes.events:,} events, median of {rounds}; {machine['cores']} cores, {machine['file_system']}, "
          f"{machine['postgres']}, {machine['redis']}\n")
    print(table.render(rows))
    print(f"\n{table.LEGEND}\n")
    print(table.notes(rows, absent))
    busy = max((one.get("cores_taken_by_others", 0) for row in rows for one in row["rounds"]), default=0)
    if busy > 0.2:
        print(f"\nother processes took up to {busy:.1f} cores meanwhile: these figures are not worth keeping")
    if destination:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        result = {"at": at, "machine": machine, "sizes": dataclasses.asdict(sizes), "rows": rows,
                  "not_installed": [{"engine": engine, "why": why} for engine, why in absent]}
        destination.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
