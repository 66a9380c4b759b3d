"""The figures of the five papers, as they were measured, for print: PDF, SVG and PNG, a column wide.

    python gallery.py FOLDER [--requests N] [PAPER...]

Without a number each paper takes the requests of its quick form, a minute or two for each.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import nandu

PAPERS = ("segment-prefetch", "hetero-mirroring", "tpc-ftl", "shared-space", "hybrid-disk")


def draw(paper: str, folder: Path, requests: int | None = None) -> list[Path]:
    """Draws the figures of a paper; returns the pictures."""
    made = nandu.reproduce(paper, quick=requests is None, requests=requests, progress=True)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for title in made.figures(paper):
        name = re.sub(r"[^a-z0-9]+", "-", f"{paper} {title}".lower()).strip("-")[:80]
        for ending in ("pdf", "svg", "png"):
            made.plot(paper, title, file=folder / f"{name}.{ending}")
        drawn.append(folder / f"{name}.png")
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of the five papers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("papers", nargs="*", metavar="PAPER", default=PAPERS, help=", ".join(PAPERS))
    parser.add_argument("--requests", type=int)
    args = parser.parse_args()
    for paper in args.papers:
        for picture in draw(paper, args.folder, args.requests):
            print(picture)


if __name__ == "__main__":
    main()
