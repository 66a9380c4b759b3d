"""A replacement policy of your own in ten lines, against those of Nandu.

marimo edit own_policy.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    from collections import OrderedDict

    import marimo as mo
    import nandu

    mo.md(
        "# A policy of your own\nA class with four methods is a policy. This one is a clock: a line that was met since it came has a second chance."
    )
    return OrderedDict, mo, nandu


@app.cell
def _(OrderedDict, nandu):
    @nandu.register("my-clock")
    class Clock(nandu.Replacement):
        """The oldest line that was not met since it came or was passed."""

        def __init__(self, room):
            self.met = OrderedDict()

        def insert(self, line, arrival):
            self.met[line] = False

        def hit(self, line, hit):
            self.met[line] = True

        def victim(self, incoming):
            while self.met:
                line, met = self.met.popitem(last=False)
                if not met:
                    return line
                self.met[line] = False

        def remove(self, line):
            del self.met[line]

    policy = "my-clock"
    return (policy,)


@app.cell
def _(mo, nandu, policy):
    load = nandu.Trace.generator("mixed-zipf", requests=20_000)
    curves = nandu.mrc(load, [policy, "lru", "arc", "s3-fifo"], [250, 500, 1000, 2000, 4000, 8000])
    mo.vstack([mo.md("Miss ratios by size of the cache, without a device:"), curves.chart()])
    return curves, load


@app.cell
def _(load, mo, nandu, policy):
    cache = nandu.Stack("cache")
    stacks = {name: cache.set("device.cache.replacement.kind", name) for name in (policy, "lru")}
    race = nandu.compare(stacks, load, fit="wrap", extend=0)
    mo.vstack([mo.md(f"In a cache over a drive:\n\n```\n{race}\n```"), race.chart("percentiles")])
    return (race,)


@app.cell
def _(mo, nandu):
    found = nandu.verify("cache", seeds=30, crash=True)
    mo.md(f"Random caches with this class among their policies, through power cuts: **{found['seeds']} seeds, {len(found['failures'])} failures**.")
    return (found,)


if __name__ == "__main__":
    app.run()
