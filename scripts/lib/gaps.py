"""What was not measured, what the figures do not say, and what makes them doubtful: the first part of the page."""

from show import BUSY, COSTS, WORKLOADS, at, busy, digits, ends, middle, plural, title

# The floor may drift this much within a run before the page says so.
DRIFT = 1.5

READS = ("duplicate", "get", "scan")
# Who is to take part: in every workload, and where a commit is made durable.
EVERYWHERE = {"sprag": "Sprag", "sqlite": "SQLite", "redb": "redb", "fjall": "fjall", "lmdb": "LMDB"}
DURABLE = {
    "sqlite grouped": "SQLite behind a group layer",
    "fjall grouped": "fjall behind a group layer",
    "denokv": "denokv_sqlite",
    "floor": "the floor",
}
# What is to be measured: threads, sizes of values, milliseconds added to a sync, numbers of keys, variants.
ASKED = {
    "hot-commit": {"threads": (1, 8, 64), "value_bytes": (100, 4096), "slow_sync_ms": (2,)},
    "get": {"variant": ("warm", "larger than the cache")},
    "growth": {"keys": (10_000, 1_000_000, 10_000_000)},
}
ASKED_WORDS = {
    "threads": "{:,} threads",
    "value_bytes": "values of {:,} B",
    "slow_sync_ms": "a sync made {} ms slower",
    "keys": "{:,} keys",
    "variant": "{}",
}
# What holds whatever was found.
ALWAYS = (
    "- **Other disks.** How long a sync takes decides most of this page. Here it is short (see the machine); on many disks it",
    "  takes milliseconds, and then sharing a sync matters more, and everything else less. Network disks were not measured.",
    "- **Power loss.** None was simulated here, and no plug was pulled. The durability of each engine is what its documentation says of",
    "  its settings. What Sprag keeps after a crash is shown by tests ([GUARANTEES.md](GUARANTEES.md)), not by this page.",
    "- **Whether the disk tells the truth.** A disk, or a virtual machine's, that answers a sync too early makes all of them faster.",
    "- **Long runs.** A figure is from a number of short slices. Days of work, worn disks and full ones were not measured.",
    "- **Mixed work.** Each workload runs alone: no readers beside writers, no long readers, no other programs.",
    "- **Your batches.** A program that already puts many operations into one transaction gains less from a shared sync.",
    "- **Tuning.** Each engine runs with its defaults and the settings its durability asks for; somebody who knows it well may get more.",
)


def lines(of):
    """All of it, as lines of a list."""
    cores = sorted({(run.get("machine") or {}).get("cores") or 0 for _, run in of.all_runs()} - {0})
    on = f" with {' and with '.join(plural(count, 'core') for count in cores)}" if cores else ""
    machines = (
        f"- **Other machines.** All of it is from what stands below under *The machine*{on}. Other numbers of cores, file systems,",
        "  kernels and operating systems were not measured.",
    )
    missing = missing_workloads(of) + missing_peers(of) + missing_settings(of) + missing_figures(of)
    if not missing:
        missing = ["- Of the workloads and peers that were planned, none is missing."]
    return [*machines, *ALWAYS, *missing, *(f"- {words}" for words in of.told), *disturbed(of)]


def missing_workloads(of):
    found = [WORKLOADS[name][0] for name in WORKLOADS if not of.runs.get(name)]
    return [f"- **Workloads missing here:** {', '.join(found).lower()}."] if found else []


def missing_peers(of):
    found = {}
    for name in of.workloads():
        groups = {peer.get("group") or "" for run in of.runs[name] for peer in run.get("peers", [])}
        asked = EVERYWHERE if name in READS else EVERYWHERE | DURABLE
        for group, words in asked.items():
            if not any(there == group or there.startswith(group + "_") for there in groups):
                found.setdefault(words, []).append(name)
    lines = []
    for words, names in found.items():
        everywhere = len(names) == len([name for name in of.workloads() if words not in DURABLE.values() or name not in READS])
        where = "took no part" if everywhere else "took no part in " + ", ".join(title(name).lower() for name in names)
        lines.append(f"- **Missing:** {words} {where}.")
    return lines


def missing_settings(of):
    lines = []
    for name, asked in ASKED.items():
        if not of.runs.get(name):
            continue
        for field, wanted in asked.items():
            there = {run.get(field) for run in of.runs[name]}
            gaps = [ASKED_WORDS[field].format(value) for value in wanted if value not in there]
            if gaps:
                lines.append(f"- **Missing:** {title(name).lower()} with {', '.join(gaps)}.")
    return lines


def missing_figures(of):
    lines = []
    if not of.costs:
        lines.append("- **Missing:** what a commit costs in bytes, processor time and memory.")
    for field, words in COSTS.items():
        names = [name for name, cost in of.costs.items() if cost.get(field) is None]
        if names:
            lines.append(f"- **Not known:** {words[0]} of {', '.join(names)}.")
    if not of.footprint.get("peers"):
        lines.append("- **Missing:** binary size, crates and build time.")
    return lines


def disturbed(of):
    """Runs in which others took part of the machine, the floor drifted, or which are not of one piece."""
    lines = []
    for name, run in of.all_runs():
        others, probe = run.get("others_share"), run.get("floor_probe")
        most = ends(others)[1] if others else 0
        where = f"{title(name).lower()}, {at(run)}"
        if busy(run):
            lines.append(f"- **Busy:** {where}: other programs took {middle(others):.0%} of the processors. Its ratios say nothing.")
        elif most > BUSY:
            lines.append(f"- **Busy rounds:** {where}: other programs took up to {most:.0%} of the processors in a round.")
        low, high = ends(probe) if probe else (0, 0)
        if high > DRIFT * low:
            lines.append(f"- **Drift:** {where}: the floor went from {digits(low)} to {digits(high)} commits a second.")
    for field, words in (("commit", "commits of this repository"), ("date", "days")):
        found = sorted({run[field] for _, run in of.all_runs() if run.get(field)})
        if len(found) > 1:
            lines.append(f"- **Not one run:** the figures are of several {words}: {', '.join(found)}.")
    return lines
