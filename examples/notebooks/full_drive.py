"""What a full drive does: the same writes on a new drive and on one that is full of data.

marimo edit full_drive.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import nandu

    mo.md(
        "# What a full drive does\nA new drive writes into blocks that are erased. A full one has to make room first: it moves what is still "
        "valid, and erases."
    )
    return mo, nandu


@app.cell
def _(nandu):
    load = nandu.Trace.generator("uniform", requests=40_000, write=1)
    states = {"new": "empty", "full": "filled", "full and used": "aged"}
    results = {
        name: nandu.run(nandu.Stack("small-ssd").named(name), load, fit="wrap", iodepth=4, extend=0, precondition=state, progress=True)
        for name, state in states.items()
    }
    return (results,)


@app.cell
def _(mo, results):
    from nandu import charts

    mo.vstack([mo.md("Mean latency over the time of the run:"), charts.time(results), mo.md("Where the time goes:"), charts.path(results)])
    return


@app.cell
def _(mo, results):
    rows = [
        {"drive": name, "WAF": r["waf"], "IOPS": r["total"]["iops"], "p99, ms": r["total"]["lat_ns"]["percentile"]["99.000000"] / 1e6}
        for name, r in results.items()
    ]
    mo.vstack([mo.md("A write of the host costs so many writes of the flash (WAF):"), mo.ui.table(rows, selection=None)])
    return (rows,)


if __name__ == "__main__":
    app.run()
