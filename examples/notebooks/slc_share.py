"""Which share of cells with one bit makes a hybrid disk quick and long-lived.

marimo edit slc_share.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import nandu

    mo.md(
        "# Which share of SLC?\nA hybrid disk keeps its flash in two rings: cells with one bit are quick and bear more erases, cells with two "
        "hold twice as much. Each figure has the share of cells with one bit along its axis."
    )
    return mo, nandu


@app.cell
def _(mo, nandu):
    made = nandu.reproduce("hybrid-disk", requests=4000)
    figures = made.figures("hybrid-disk")
    pick = mo.ui.dropdown(list(figures), value=next(iter(figures)), label="figure")
    pick
    return made, pick


@app.cell
def _(made, pick):
    made.chart("hybrid-disk", pick.value)
    return


@app.cell
def _(made, mo):
    claims = [{"claim": c["says"], "case": c["case"], "measured": c["measured"], "verdict": c["verdict"]} for c in made["hybrid-disk"]["claims"]]
    mo.vstack(
        [
            mo.md("What the paper says of it, held against so few requests; `nandu reproduce hybrid-disk` takes all."),
            mo.ui.table(claims, selection=None),
        ]
    )
    return (claims,)


if __name__ == "__main__":
    app.run()
