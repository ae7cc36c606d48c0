"""Writes queries.tsv: queries of an index of coastlines, and what Shapely answers.

    python3 -m venv /tmp/shapely && /tmp/shapely/bin/pip install shapely==2.2.0
    /tmp/shapely/bin/python crates/farwood/tests/data/queries.py > crates/farwood/tests/data/queries.tsv

`--queries N --seed S` write more of other queries, for a test run with FARWOOD_QUERIES=<file>.

The records are the segments of data/coastlines.csv, numbered from 0, and those of the file. Lines, separated by tabs:
    comments   # ..
    records    R, WKT: the number is the next one
    queries    Q, WKT; answers of intersects, disjoint, within, contains, covers, covered-by, touches, overlaps, crosses
               and equals (the record is the first geometry); distance, answer of dwithin; count, distance of the last of
               the nearest
    answers    number of records, sum of (number + 1)^3 modulo 2^64
"""

import argparse
import random
from pathlib import Path

import numpy
import shapely
from shapely.geometry import LineString, MultiPolygon, Point, Polygon, box

ROOT = Path(__file__).resolve().parents[4]
PREDICATES = [shapely.intersects, shapely.disjoint, shapely.within, shapely.contains, shapely.covers,
              shapely.covered_by, shapely.touches, shapely.overlaps, shapely.crosses, shapely.equals]


def coastlines():
    rows = (ROOT / "data" / "coastlines.csv").read_text().splitlines()
    return [tuple(map(float, row.split(","))) for row in rows]


def land(segments):
    """The closed rings of the coastlines, as polygons."""
    chains = []
    for x1, y1, x2, y2 in segments:
        if not chains or chains[-1][-1] != (x1, y1):
            chains.append([(x1, y1)])
        chains[-1].append((x2, y2))
    polygons = [Polygon(chain) for chain in chains if chain[0] == chain[-1] and len(chain) >= 4]
    return [polygon for polygon in polygons if polygon.is_valid]


def query(rng, records, segments, polygons):
    """A geometry that is near, on or equal to some of the records."""
    x, y, x2, y2 = rng.choice(segments)
    size = rng.choice([0.1, 1, 5, 30])
    kind = rng.randrange(10)
    if kind == 0:
        return Point(x, y)
    if kind == 1:
        return Point(round(rng.uniform(-180, 180), 2), round(rng.uniform(-90, 90), 2))
    if kind == 2:
        return LineString([(x, y), (x2, y2)])
    if kind == 3:
        return LineString([(x, y), (rng.uniform(x - size, x + size), rng.uniform(y - size, y + size))])
    if kind == 4:
        return Polygon([(x, y), (x + size, y), (x, y + size)])
    if kind == 5:
        return box(x - size, y - size, x, y)
    if kind == 6:
        return rng.choice(polygons)
    if kind == 7:
        return rng.choice(records)
    if kind == 8:
        return MultiPolygon([box(180 - size, y - size, 180, y + size), box(-180, y - size, -180 + size, y + size)])
    corners = list(rng.choice(polygons).exterior.coords)
    return LineString(corners[:rng.randrange(2, len(corners))])


def inside(geometry):
    west, south, east, north = geometry.bounds
    return geometry.is_valid and west >= -180 and east <= 180 and south >= -90 and north <= 90


def answer(holds):
    numbers = numpy.flatnonzero(holds).tolist()
    return f"{len(numbers)} {sum((number + 1) ** 3 for number in numbers) % 2**64}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    segments = coastlines()
    polygons = land(segments)
    extra = rng.sample(polygons, min(60, len(polygons)))
    extra += [Point(x, y) for x, y, _, _ in rng.sample(segments, 100)]
    while len(extra) < 400:
        shape = query(rng, extra, segments, polygons)
        if inside(shape) and len(shapely.get_coordinates(shape)) < 40:
            extra.append(shape)
    print(f"# Shapely {shapely.__version__}, GEOS {shapely.geos_version_string}; --queries {options.queries} "
          f"--seed {options.seed}")
    for record in extra:
        print(f"R\t{record.wkt}")
    records = [LineString([(x1, y1), (x2, y2)]) for x1, y1, x2, y2 in segments] + extra
    array = numpy.array(records, dtype=object)
    done = 0
    while done < options.queries:
        shape = query(rng, records, segments, polygons)
        if not inside(shape):
            continue
        answers = [answer(predicate(array, shape)) for predicate in PREDICATES]
        distances = numpy.sort(shapely.distance(array, shape))
        distance, count = rng.choice([0.013, 0.7, 3.1]), rng.randrange(1, 50)
        within = answer(shapely.dwithin(array, shape, distance))
        near = f"{count} {float(distances[count - 1])!r}"
        print("\t".join(["Q", shape.wkt, *answers, f"{distance} {within}", near]))
        done += 1


main()
