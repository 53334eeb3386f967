"""The page of figures: from figures and reasons to the text of `docs/BENCHMARKS.md` and its plots. No file is touched here.

What is missing from the figures is said on the page, first; nothing is put in its place.
"""

import gaps
import plots
from show import COSTS, FOOTPRINTS, GRAND, WORKLOADS, Figures, at, between, bold, busy, digits, ends, family, is_sync, middle
from show import ordered, plural, slug, spread, table, title


class Page(Figures):
    def __init__(self, figures, reasons):
        super().__init__(figures)
        self.reasons = reasons
        self.files = {}
        self.text = []

    def add(self, *lines):
        self.text += lines

    def plot(self, name, alt, svg):
        self.files[f"{name}.svg"] = svg
        self.add(f"![{alt}](benchmarks/{name}.svg)", "")

    def make(self):
        """The page, and its plots by name."""
        self.add(
            "<!-- Made by scripts/benchmarks from docs/benchmarks/figures.json and reasons.md; scripts/check refuses edits by hand. -->",
            "",
            "# Benchmarks",
            "",
            "Sprag and what a user would pick instead, on the same work, with the same durability, in one run. Ratios are what to",
            "look at: they are taken within a round, so that a machine that drifts does not touch them. Rates are for orientation.",
            "",
        )
        self.add("## What was not measured, and what these figures do not say", "", *gaps.lines(self), "")
        self.machine()
        self.method()
        self.verdicts()
        self.slower()
        for name in self.workloads():
            self.workload(name)
        self.costs_of_a_commit()
        self.footprints()
        return "\n".join(self.text).rstrip() + "\n", self.files

    # Under what it was measured.

    def machine(self):
        self.add("## The machine", "")
        seen = []
        for _, run in self.all_runs():
            if run.get("machine") and run["machine"] not in seen:
                seen.append(run["machine"])
        if not seen:
            self.add("Not recorded.", "")
            return
        names = {"cores": "cores", "cpu": "processor", "kernel": "kernel", "filesystem": "file system"}
        syncs = sorted(machine["sync_us"] for machine in seen if machine.get("sync_us"))
        machines = []
        for machine in seen:
            rest = {field: value for field, value in machine.items() if field not in ("sync_us", "load_average") and value is not None}
            if rest not in machines:
                machines.append(rest)
        fields = list(dict.fromkeys(field for machine in machines for field in machine))
        lines = [[names.get(field, field.replace("_", " "))] + [machine.get(field, "-") for machine in machines] for field in fields]
        if syncs:
            lines.append(["one sync", f"{between(syncs)} us"])
        dates = sorted({run["date"] for _, run in self.all_runs() if run.get("date")})
        commits = sorted({run["commit"] for _, run in self.all_runs() if run.get("commit")})
        lines += [["day", ", ".join(dates) or "-"], ["commit", ", ".join(commits) or "-"]]
        self.add(*table(["", *["<" for _ in machines]], [line + [""] * (len(machines) + 1 - len(line)) for line in lines]), "")

    def method(self):
        rounds = sorted({run["rounds"] for _, run in self.all_runs() if run.get("rounds")})
        slices = sorted({run["slice_seconds"] for _, run in self.all_runs() if run.get("slice_seconds")})
        pace = f" Here: {between(rounds)} rounds, slices of {between(slices)} s." if rounds and slices else ""
        self.add(
            "## How it was measured",
            "",
            "- All peers of a table ran in one run, each in a process of its own, in turns: a round gives each of them one slice, and the next round begins with",
            f"  another one.{pace}",
            "- The **floor** is a bare append of the same bytes with the same sync, on one thread: what the disk allows without",
            "  sharing a sync. It was probed before and after each round.",
            "- The same durability for all in a ratio: **sync** survives power loss, **buffered** survives the kill of the process.",
            "- A number is the median over the rounds, with the smallest and the largest in parentheses. A ratio is taken within each round",
            "  first. *Of SQLite* is against the faster way to use plain SQLite at the same durability.",
            "- Latency is from the call to the answer, as its thread sees it, checkpoints included.",
            "- At the end what each engine holds is read back and compared, so that nobody wins by doing less. A folder in memory is refused.",
            "",
            "```sh",
            "cargo bench -p sprag-benches --bench compare    # target/sprag-bench/compare.json",
            "scripts/footprint                               # target/sprag-bench/footprint.json",
            "scripts/benchmarks                              # this page; with --run, all three",
            "```",
            "",
        )

    # What came out.

    def verdicts(self):
        self.add("## Targets", "")
        if not self.targets():
            self.add("None was judged.", "")
            return
        lines, long = [], []
        for name, run, target in self.targets():
            reason = self.reasons.get(target["text"], [])
            if target.get("met"):
                outcome = "met"
            elif target.get("met") is False:
                outcome = "**MISSED**: " + (reason[0] if reason else "no reason given")
            else:
                outcome = "not measured" if target.get("found") is None else "not judged"
                outcome += ": the machine was busy" if busy(run) and target.get("found") is not None else ""
            if target.get("met") is False and len(reason) > 1 and (target["text"], reason[1:]) not in long:
                long.append((target["text"], reason[1:]))
            where = f"{title(name)}, {at(run)}"
            lines.append([where, target["text"], digits(middle(target.get("wanted"))), spread(target.get("found")), outcome])
        met = sum(1 for _, _, target in self.targets() if target.get("met"))
        missed = sum(1 for _, _, target in self.targets() if target.get("met") is False)
        rest = len(self.targets()) - met - missed
        self.add(f"{met} met, {missed} missed, {rest} not judged.", "")
        self.add(*table(["at", "<target", "wanted", "found", "<outcome"], lines), "")
        for text, reason in long:
            self.add(f"**{text}**, in full:", "")
            for paragraph in reason:
                self.add(paragraph, "")

    def slower(self):
        """Every place in which somebody with the same durability is ahead of us."""
        self.add("## Where Sprag is behind", "")
        lines = []
        for name, run in self.all_runs():
            for peer in ordered(run):
                ours = self.ours(run, is_sync(peer))
                if ours is None or family(peer, GRAND) or family(peer, "floor"):
                    continue
                where = f"{title(name)}, {at(run)}"
                lines += [[where, *line] for line in behind(ours, peer)]
        durable = {peer["name"] for _, run in self.all_runs() for peer in run.get("peers", []) if is_sync(peer) and not family(peer, GRAND)}
        for name, cost in self.costs.items() if GRAND in self.costs else ():
            if name in durable:
                lines += more("Costs", name, self.costs[GRAND], cost, COSTS)
        peers = self.footprint.get("peers") or {}
        for name, found in peers.items() if GRAND in peers else ():
            if name != "nothing":
                lines += more("Footprint", name, peers[GRAND], found, FOOTPRINTS)
        if lines:
            self.add("The floor, which keeps nothing, is left out. Everything else that is ahead of Sprag stands here.", "")
            self.add(*table(["at", "<what", "<who is ahead", "Sprag", "the other", "factor"], lines), "")
        else:
            self.add("Nowhere in these figures." if self.all_runs() else "Nothing was measured.", "")

    @staticmethod
    def ours(run, sync):
        found = [peer for peer in run.get("peers", []) if family(peer, GRAND) and is_sync(peer) == sync]
        return max(found, key=lambda peer: middle(peer.get("rate")) or 0, default=None)

    def workload(self, name):
        self.add(f"## {title(name)}", "")
        if name in WORKLOADS:
            self.add(WORKLOADS[name][1], "")
        if name == "hot-commit":
            self.throughput(name)
            self.latencies(name)
            self.bytes_of_a_commit()
        if name == "growth":
            self.growth(name)
        for run in self.runs[name]:
            self.add(f"### {title(name)}: {at(run)}", "")
            heads = ["peer", "<durability", "of SQLite", "of the floor", "per second", "p50 us", "p99 us", "p99.9 us"]
            lines = []
            for peer in ordered(run):
                late = peer.get("latency_us") or {}
                lines.append(
                    [bold(peer), peer.get("durability") or "-", spread(peer.get("of_sqlite")), spread(peer.get("of_floor"))]
                    + [digits(middle(peer.get("rate")))]
                    + [digits(middle(late.get(part))) for part in ("p50", "p99", "p999")]
                )
            self.add(*table(heads, lines), "")

    def families(self, name, fields):
        """The runs of a workload that differ in one thing only, by all the others."""
        found = {}
        for run in self.runs.get(name, []):
            found.setdefault(tuple(run.get(field) or 0 for field in fields), []).append(run)
        return found

    def over(self, runs, field, sync):
        """Lines over `field`, the fastest at the end first."""
        points, groups = {}, {}
        for run in sorted(runs, key=lambda run: run[field]):
            for peer in run.get("peers", []):
                rate = middle(peer.get("rate"))
                if is_sync(peer) == sync and rate:
                    points.setdefault(peer["name"], []).append((run[field], rate))
                    groups[peer["name"]] = peer.get("group") or ""
        found = [(name, groups[name], "grouped" in groups[name], line) for name, line in points.items()]
        return sorted(found, key=lambda line: (-line[3][-1][1], line[0]))

    def throughput(self, name):
        for (value, slow, keys, variant), runs in self.families(name, ("value_bytes", "slow_sync_ms", "keys", "variant")).items():
            if len({run["threads"] for run in runs}) < 2:
                continue
            for sync in (True, False):
                series = self.over(runs, "threads", sync)
                if not series:
                    continue
                words = at({"threads": 1, "value_bytes": value, "slow_sync_ms": slow, "keys": keys, "variant": variant})
                words = words.removeprefix("1 thread, ") + ("" if sync else ", buffered")
                heading = f"{title(name)}: commits per second over threads, {words}"
                file = slug("throughput", f"{value}b", slow and f"slow{slow}ms", keys, variant, not sync and "buffered")
                self.plot(file, heading, plots.lines(heading, "threads", "commits per second (log)", series, True))

    def latencies(self, name):
        for run in self.runs[name]:
            peers = []
            for peer in ordered(run):
                late = [middle((peer.get("latency_us") or {}).get(part)) for part in ("p50", "p99", "p999")]
                if is_sync(peer) and all(late):
                    peers.append((peer["name"], peer.get("group") or "", late))
            if run.get("threads") != 8 or not peers:
                continue
            peers.sort(key=lambda peer: (peer[2][2], peer[0]))
            heading = f"{title(name)}: latency, {at(run)}"
            slow = run.get("slow_sync_ms")
            file = slug("latency", f"{run.get('value_bytes')}b", slow and f"slow{slow}ms", run.get("keys"), run.get("variant"))
            label = "microseconds from the call to the answer (log)"
            self.plot(file, heading, plots.spans(heading, label, ["p50", "p99", "p99.9"], peers))

    def bytes_of_a_commit(self):
        groups = {peer["name"]: peer.get("group") or "" for _, run in self.all_runs() for peer in run.get("peers", [])}
        peers = []
        for name, cost in self.costs.items():
            values = [cost.get("written_bytes_per_commit"), cost.get("device_bytes_per_commit")]
            if any(values):
                peers.append((name, groups.get(name, name), values))
        if not peers:
            return
        peers.sort(key=lambda peer: (min(value for value in peer[2] if value is not None), peer[0]))
        heading = "Hot commit: bytes per commit, checkpoints included"
        kinds = ["handed to write calls", "written by the device"]
        self.plot("bytes", heading, plots.bars(heading, "bytes per commit", kinds, peers))

    def growth(self, name):
        for (threads, value), runs in self.families(name, ("threads", "value_bytes")).items():
            runs = [run for run in runs if run.get("keys")]
            series = self.over(runs, "keys", True)
            if len({run["keys"] for run in runs}) < 2 or not series:
                continue
            heading = f"Growth: commits per second over remembered keys, {plural(threads, 'thread')}, values of {value:,} B"
            svg = plots.lines(heading, "remembered keys in the store (log)", "commits per second", series, False)
            self.plot(slug("growth", f"{threads}t", f"{value}b"), heading, svg)

    # What it costs.

    def costs_of_a_commit(self):
        self.add("## Costs", "")
        if not self.costs:
            self.add("Not measured.", "")
            return
        self.add(
            "The hot commit, checkpoints included. *Written* is what was handed to write calls; *device* is what the kernel counted at the",
            "disk, where other programs' writes are in it.",
            "",
        )
        lines = []
        for name, cost in sorted(self.costs.items()):
            shown = f"**{name}**" if name.startswith(GRAND) else name
            lines.append([shown, cost.get("threads", "-"), digits(cost.get("commits"))])
            lines[-1] += [show(middle(cost.get(field))) for field, (_, show) in COSTS.items()]
        heads = ["peer", "threads", "commits", "written B", "device B", "CPU us", "peak memory", "file"]
        self.add(*table(heads, lines), "")

    def footprints(self):
        self.add("## Footprint", "")
        peers = self.footprint.get("peers") or {}
        if not peers:
            self.add("Not measured.", "")
            return
        jobs = self.footprint.get("jobs")
        self.add(
            "A program that opens a store, makes one record durable and reads it back; release profile, `strip = true`, default features",
            f"(SQLite bundled). Crates are those that are linked and the macros they take. The build is one measurement{f' with {jobs} jobs' if jobs else ''}, from an",
            "empty target folder; the C compiler's work is in it, and *CPU* is its processor time. The version is the crate's: rusqlite for SQLite,",
            "heed for LMDB. *nothing* is a program that opens no store.",
            "",
        )
        lines = []
        for name, found in sorted(peers.items(), key=lambda peer: (peer[1].get("binary_bytes") or 0, peer[0])):
            shown = f"**{name}**" if name == GRAND else name
            lines.append([shown, found.get("version") or "-"] + [show(found.get(field)) for field, (_, show) in FOOTPRINTS.items()])
        self.add(*table(["peer", "<version", "binary", "crates", "build s", "CPU s"], lines), "")
        told = [str(self.footprint[field]) for field in ("rustc", "date", "commit") if self.footprint.get(field)]
        if told:
            self.add(f"Measured with {', '.join(told)}.", "")


def behind(ours, peer):
    """In what `peer` is ahead: rate, and p99.9."""
    lines = []
    mine, theirs = ours.get("rate"), peer.get("rate")
    if mine and theirs and middle(theirs) > middle(mine):
        touch = ends(theirs)[0] <= ends(mine)[1]
        note = f"{middle(theirs) / middle(mine):.2f}" + (" (ranges overlap)" if touch else "")
        lines.append(["per second", peer["name"], digits(middle(mine)), digits(middle(theirs)), note])
    late, later = (middle((who.get("latency_us") or {}).get("p999")) for who in (peer, ours))
    if late and later and late < later:
        lines.append(["p99.9, us", peer["name"], digits(later), digits(late), f"{later / late:.2f}"])
    return lines


def more(where, name, ours, theirs, fields):
    """In what we take more than `theirs`."""
    lines = []
    for field, (words, show) in fields.items():
        mine, other = middle(ours.get(field)), middle(theirs.get(field))
        if mine and other and mine > other:
            lines.append([where, words, name, show(mine), show(other), f"{mine / other:.2f}"])
    return lines


def make(figures, reasons):
    """The text of the page and its plots by name."""
    return Page(figures, reasons).make()


def unexplained(figures, reasons):
    """Targets that are missed without a reason, and reasons for what is not missed."""
    missed = {target["text"] for _, _, target in Figures(figures).targets() if target.get("met") is False}
    wrong = [f"a missed target without a reason in docs/benchmarks/reasons.md, target={text!r}" for text in sorted(missed - set(reasons))]
    return wrong + [f"a reason for what is not missed, target={text!r}" for text in sorted(set(reasons) - missed)]
