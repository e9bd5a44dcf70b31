"""Rounds into medians, medians into one table with ratios to Millstream."""
import statistics

OURS = "millstream"
COLUMNS = ["engine", "submit", "submit/s", "end to end/s", "× ours", "started p50", "× ours", "p99", "× ours",
           "done p50", "× ours", "p99", "CPU ms/event", "memory MiB"]
LEGEND = """\
× ours: the figure to its left divided by Millstream's for the same submit shape (throughput: below 1 is
slower; latency: above 1 is slower). started, done: milliseconds at 100 events/s from sending an event to
its action starting, and to its step being finished. CPU and memory: engine + store, without the client."""


def median(rounds):
    """Figure by figure over the rounds that succeeded."""
    figures = sorted({key for one in rounds for key in one})
    return {key: statistics.median(one[key] for one in rounds if key in one) for key in figures}


def render(rows):
    """`rows`: {key, folder, name, variant, shape, median, failed}; failed ones say why instead of figures."""
    ours = {row["shape"]: row["median"] for row in rows if row["key"] == OURS and row["median"]}
    body = [cells(row, ours.get(row["shape"], {})) for row in rows if row["median"]]
    widths = [max(len(line[at]) for line in [COLUMNS, *body]) for at in range(len(COLUMNS))]
    align = lambda line: " | ".join(
        text.ljust(width) if at < 2 else text.rjust(width) for at, (text, width) in enumerate(zip(line, widths)))
    rule = "|".join("-" * (width + 2) for width in widths)
    lines = [f"| {align(COLUMNS)} |", f"|{rule}|", *(f"| {align(line)} |" for line in body)]
    lines += [f"failed: {title(row)} ({row['shape']}): {row['failed']}" for row in rows if row["failed"]]
    return "\n".join(lines)


def cells(row, ours):
    get = row["median"].get

    def number(key, digits=0):
        return "–" if get(key) is None else f"{get(key):,.{digits}f}"

    def ratio(key):
        return f"{get(key) / ours[key]:.2f}" if get(key) and ours.get(key) else "–"

    def pair(what, digits, share=1.0):
        engine, store = get(f"{what}_engine"), get(f"{what}_store")
        return "–" if engine is None or store is None else f"{engine * share:.{digits}f} + {store * share:.{digits}f}"

    return [
        title(row), row["shape"], number("submit_per_s"), number("end_to_end_per_s"), ratio("end_to_end_per_s"),
        number("started_p50_ms", 1), ratio("started_p50_ms"), number("started_p99_ms", 1), ratio("started_p99_ms"),
        number("done_p50_ms", 1), ratio("done_p50_ms"), number("done_p99_ms", 1), pair("cpu_s", 2, 1000 / get("events")), pair("mib", 0),
    ]


def title(row):
    return f"{row['name']}, {row['variant']}"


def notes(rows, absent):
    """What the figures mean, once per engine."""
    engines = {row["key"]: row for row in rows}
    lines = [f"  {row['name']} {row['version']}, {row['variant']}: {row['durability']}; client: {row['client']}"
             for row in engines.values()]
    lines += [f"  {engine}: not installed: {why}" for engine, why in absent]
    return "\n".join(lines)
