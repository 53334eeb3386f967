"""Words for figures: numbers, spreads, tables, and what a run or a peer is called."""

# The peer that the page is about.
GRAND = "sprag"

WORKLOADS = {
    "hot-commit": (
        "The hot commit",
        "One durable commit: check a version, write the record, insert a remembered key that must be new, write one more row.",
    ),
    "duplicate": ("The duplicate", "The same step is delivered again, and hears what it heard before. Nothing is written."),
    "put-if": ("Conditional write", "One durable write of a record, if it has the version that was read."),
    "transition": ("Transition", "One durable move of a record from the state it must be in to the next."),
    "get": ("Read by key", "One record by its key, at random."),
    "scan": ("Scan", "1,000 records in the order of their keys, from a random place."),
    "hot-record": ("One hot record", "All threads write the same record, durably; each commit must see the one before."),
    "enqueue": ("Enqueue", "One message goes into a queue, durably."),
    "deliver": (
        "Deliver",
        "One message is claimed, with its attempt counted and a fence, and then acknowledged: two durable commits.",
    ),
    "deliver-lots": (
        "Deliver in lots",
        "A hundred messages are acknowledged and the next hundred claimed, in one durable commit.",
    ),
    "growth": ("Growth", "The hot commit in a store that remembers so many keys already."),
}


# Above this share of the processors taken by others, the harness judges no ratio; the same bound as its own.
BUSY = 0.15


class Figures:
    """What the harness and the footprint found; any part may be missing."""

    def __init__(self, figures):
        compare = figures.get("compare") or {}
        self.runs = compare.get("runs") or {}
        told = compare.get("not_measured") or []
        self.told = [f"**{one['name']}**: {one['reason']}." if isinstance(one, dict) else one for one in told]
        self.costs = compare.get("costs") or {}
        self.footprint = figures.get("footprint") or {}

    def workloads(self):
        """Those that were measured, as they are listed, then those that nobody listed."""
        known = [name for name in WORKLOADS if self.runs.get(name)]
        return known + sorted(name for name in self.runs if name not in WORKLOADS and self.runs[name])

    def all_runs(self):
        return [(name, run) for name in self.workloads() for run in self.runs[name]]

    def targets(self):
        return [(name, run, target) for name, run in self.all_runs() for target in run.get("targets") or []]


def title(name):
    return WORKLOADS.get(name, (name,))[0]


def middle(value):
    """The number, or the median of a spread; `None` of nothing."""
    return value.get("median") if isinstance(value, dict) else value


def ends(value):
    """The smallest and the largest of a spread."""
    return (value["min"], value["max"]) if isinstance(value, dict) else (value, value)


def digits(number):
    """Three digits that say something, without an exponent; a count as it is."""
    if number is None:
        return "-"
    if isinstance(number, int) or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"


def spread(value):
    if not isinstance(value, dict):
        return digits(value)
    return f"{digits(value['median'])} ({digits(value['min'])}..{digits(value['max'])})"


def size(count):
    if count is None:
        return "-"
    for unit, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{digits(count / unit)} {word}"
    return f"{count:,.0f} B"


def between(sorted_numbers):
    low, high = (f"{number:.3g}" for number in (sorted_numbers[0], sorted_numbers[-1]))
    return low if low == high else f"{low} to {high}"


def plural(count, word):
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def at(run):
    """Under what a run was made, in words."""
    words = [plural(run.get("threads") or 1, "thread"), f"values of {run.get('value_bytes') or 0:,} B"]
    if run.get("keys"):
        words.append(f"{run['keys']:,} keys")
    if run.get("slow_sync_ms"):
        words.append(f"sync made {run['slow_sync_ms']} ms slower")
    if run.get("variant"):
        words.append(run["variant"])
    return ", ".join(words)


def table(heads, lines):
    """A table of Markdown; all columns but the first are numbers unless the head begins with `<`."""
    rule = ["---"] + ["---" if head.startswith("<") else "---:" for head in heads[1:]]
    lines = [[head.lstrip("<") for head in heads], rule, *lines]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


def family(peer, name):
    return (peer.get("group") or "").split(" ")[0] == name


def is_sync(peer):
    return peer.get("durability") != "buffered"


def ordered(run):
    """Durable ones first, then by rate."""
    return sorted(run.get("peers", []), key=lambda peer: (not is_sync(peer), -(middle(peer.get("rate")) or 0), peer["name"]))


def busy(run):
    return (middle(run.get("others_share")) or 0) > BUSY


def bold(peer):
    return f"**{peer['name']}**" if family(peer, GRAND) else peer["name"]


def slug(*words):
    return "-".join("".join(c if c.isalnum() else "-" for c in str(word).lower()) for word in words if word)


COSTS = {
    "written_bytes_per_commit": ("bytes handed to write calls", digits),
    "device_bytes_per_commit": ("bytes at the device", digits),
    "cpu_us_per_commit": ("CPU per commit, us", digits),
    "peak_memory_bytes": ("peak memory", size),
    "file_bytes": ("file size", size),
}
FOOTPRINTS = {
    "binary_bytes": ("binary size", size),
    "crates": ("crates", digits),
    "build_seconds": ("clean build, s", digits),
    "build_cpu_seconds": ("processor time of a clean build, s", digits),
}
