"""Joins points with coastlines in four processes that share one index, and draws the result.

`python join.py [coastlines.csv] [map.png]`; each row of the file is a segment: x0, y0, x1, y1 in degrees. The repository
has coastlines of the world in `data/coastlines.csv`. Needs GeoPandas and matplotlib.
"""

import multiprocessing
import pathlib
import sys

import geopandas
import numpy as np
import shapely

import farwood
import farwood.geopandas

POOL = "shm://join-example"
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def coast(path):
    segments = np.loadtxt(path, delimiter=",")
    return geopandas.GeoSeries(shapely.linestrings(segments.reshape(-1, 2, 2)), crs="EPSG:4326")


def begin(lines):
    """A worker opens the index by its name: no process has a copy of the tree."""
    global index
    index = farwood.geopandas.sindex(lines, f"{POOL}/coast")


def near(points):
    """The points that are at most 2 degrees from a coast."""
    positions, _ = index.query(points, "dwithin", distance=2.0)
    return points[np.unique(positions)]


def main():
    lines = coast(sys.argv[1] if len(sys.argv) > 1 else REPOSITORY / "data" / "coastlines.csv")
    random = np.random.default_rng(1)
    points = shapely.points(random.uniform(-180, 180, 20_000), random.uniform(-85, 85, 20_000))
    farwood.geopandas.sindex(lines, f"{POOL}/coast", memory="256 MiB").close()
    with multiprocessing.Pool(4, begin, (lines,)) as processes:
        found = np.concatenate(processes.map(near, np.array_split(points, 16)))
    print(f"{len(found)} of {len(points)} points are at most 2 degrees from a coast")
    draw(lines, found, sys.argv[2] if len(sys.argv) > 2 else "join.png")
    farwood.remove(POOL, force=True)


def draw(lines, found, path):
    import matplotlib

    matplotlib.use("Agg")
    axes = lines.plot(figsize=(12, 6), linewidth=0.5, color="black")
    geopandas.GeoSeries(found).plot(ax=axes, markersize=1, color="tab:blue")
    axes.set_title("Points at most 2 degrees from a coast")
    axes.figure.savefig(path, dpi=120)
    print(f"drawn to {path}")


if __name__ == "__main__":
    main()
