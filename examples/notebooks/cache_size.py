"""Which size of a cache is worth its memory, by the curve of miss ratios and by what a drive behind it does.

marimo edit cache_size.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import nandu

    mo.md("# Which cache size?\nA curve of miss ratios says how much a larger cache could spare. A run says what that is worth in time.")
    return mo, nandu


@app.cell
def _(mo, nandu):
    load = nandu.Trace.generator("mixed-zipf", requests=30_000)
    sizes = [2**n for n in range(6, 15)]
    curves = nandu.mrc(load, ["lru", "arc", "sieve"], sizes)
    mo.vstack([mo.md("Blocks of 4 KiB:"), curves.chart()])
    return curves, load


@app.cell
def _(load, mo, nandu):
    memory = ["1 MiB", "4 MiB", "16 MiB", "64 MiB"]
    sweep = nandu.sweep(
        "cache",
        load,
        axes={"device.cache.size": memory},
        minimise=["mean", "p99"],
        fit="wrap",
        extend=0,
        allow_unsteady=True,
        allow_saturated=True,
    )
    mo.vstack([mo.md("The same with a drive behind the cache:"), sweep.chart(x="size", y="mean"), sweep.chart(x="size", y="p99")])
    return (sweep,)


@app.cell
def _(curves, mo):
    lru = [point for point in curves["points"] if point["policy"] == "lru"]
    floor = min(point["miss_ratio"] for point in lru)
    # The smallest that spares nine tenths of what any size here could spare.
    enough = next(point for point in lru if point["miss_ratio"] <= floor + 0.1 * (1 - floor))
    mo.md(f"LRU spares nine tenths of what it can with **{enough['bytes'] / 2**20:g} MiB**: its misses are {enough['miss_ratio']:.1%} of the blocks.")
    return (enough,)


if __name__ == "__main__":
    app.run()
