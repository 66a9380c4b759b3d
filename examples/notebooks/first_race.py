"""The first race: which of three drives serves the same requests best, and where the time goes.

marimo edit first_race.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import nandu

    mo.md("# A first race\nThree drives that differ in one thing, the flash that is spare, serve the same requests. All are full of data.")
    return mo, nandu


@app.cell
def _(mo):
    requests = mo.ui.slider(2_000, 60_000, step=2_000, value=20_000, label="requests")
    requests
    return (requests,)


@app.cell
def _(nandu, requests):
    drive = nandu.Stack("small-ssd")
    stacks = {f"{spare:.0%} spare": drive.set("device.ssd.spare_factor", spare) for spare in (0.07, 0.15, 0.28)}
    load = nandu.Trace.generator("mixed-zipf", requests=requests.value)
    race = nandu.compare(stacks, load, fit="wrap", iodepth=4, extend=0, progress=True)
    return (race,)


@app.cell
def _(mo, race):
    mo.vstack([mo.md("The share of the requests that took longer, by time: a drive is the better the lower its line."), race.chart()])
    return


@app.cell
def _(mo, race):
    mo.vstack([mo.md("Where the mean request spends its time. What collection takes shrinks with every block that is spare."), race.chart("path")])
    return


@app.cell
def _(mo, race):
    mo.vstack([mo.md(f"In words:\n\n```\n{race}\n```\n\nIn figures:"), mo.ui.table(race.table.to_dict(), selection=None)])
    return


if __name__ == "__main__":
    app.run()
