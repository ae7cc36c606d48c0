"""Writes cases.tsv: geometries, and what Shapely says about pairs of them.

    python3 -m venv /tmp/shapely && /tmp/shapely/bin/pip install shapely==2.2.0
    /tmp/shapely/bin/python crates/geometry/tests/data/generate.py > crates/geometry/tests/data/cases.tsv

The output depends on the seed, on data/coastlines.csv and on the version of GEOS only. `--pairs N --seed S --positions P`
write more pairs of other geometries, for a test run with FARWOOD_GEOMETRY_CASES=<file>.

Lines of the file, separated by tabs:
    comments        # ..
    geometries      their number from 0, WKT
    pairs           number, number, DE-9IM, predicates as hexadecimal bits, distance
"""

import argparse
import math
import random
from pathlib import Path

import shapely
from shapely import affinity
from shapely.geometry import (GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon, Point,
                              Polygon)

PREDICATES = ["intersects", "disjoint", "within", "contains", "covers", "covered_by", "touches", "overlaps",
              "crosses", "equals"]
ROOT = Path(__file__).resolve().parents[4]


def coastlines():
    """Closed rings of the repository's coastlines, in degrees with two decimals."""
    chains, chain = [], []
    for row in (ROOT / "data" / "coastlines.csv").read_text().splitlines():
        x1, y1, x2, y2 = map(float, row.split(","))
        if not chain or chain[-1] != (x1, y1):
            chain = [(x1, y1)]
            chains.append(chain)
        chain.append((x2, y2))
    return chains


def two_decimals(geometry):
    return shapely.transform(geometry, lambda xy: xy.round(2))


def real_shapes(rng, count, positions):
    """Land, pieces of coast, their vertices, midpoints, triangles and neighbours with shared edges."""
    chains = coastlines()
    rings = [c for c in chains if c[0] == c[-1] and 4 <= len(c) <= positions]
    land = [p for p in (Polygon(c) for c in rings) if p.is_valid]
    # Few, so that many pairs meet.
    land = rng.sample(land, 12)
    shapes = []
    for _ in range(count):
        polygon = rng.choice(land)
        ring = list(polygon.exterior.coords)[:-1]
        kind = rng.randrange(9)
        at = rng.randrange(len(ring))
        turned = ring[at:] + ring[:at]
        if kind == 0:
            shapes.append(polygon)
        elif kind == 1:  # part of the coast
            shapes.append(LineString(turned[:rng.randint(2, len(turned))]))
        elif kind == 2:  # a vertex, or the middle of an edge
            shapes.append(Point(turned[0]))
            (x1, y1), (x2, y2) = turned[0], turned[1]
            shapes.append(Point((x1 + x2) / 2, (y1 + y2) / 2))
        elif kind == 3:  # the coast cut by a chord: shares edges with the land
            part = Polygon(turned[:max(3, rng.randint(3, len(turned)))])
            if part.is_valid:
                shapes.append(part)
        elif kind == 4:  # land with a triangle of its own vertices as a hole
            hole = Polygon(rng.sample(ring, 3))
            if hole.is_valid and polygon.contains(hole):
                shapes.append(Polygon(ring, [hole.exterior.coords]))
        elif kind == 5:  # a box around part of it
            xs, ys = zip(*rng.sample(ring, 2))
            if len(set(xs)) == 2 and len(set(ys)) == 2:
                shapes.append(shapely.box(min(xs), min(ys), max(xs), max(ys)))
        elif kind == 6:  # moved
            shapes.append(two_decimals(affinity.translate(polygon, rng.uniform(-3, 3), rng.uniform(-3, 3))))
        elif kind == 7:
            shapes.append(MultiPoint([rng.choice(ring) for _ in range(4)] + [polygon.representative_point()]))
        else:  # several islands
            several = MultiPolygon(rng.sample(land, 3))
            if several.is_valid and sum(len(p.exterior.coords) for p in several.geoms) < positions + 20:
                shapes.append(several)
    return [s for s in shapes if s.is_valid]


def grid_point(rng, size):
    return (rng.randint(0, size), rng.randint(0, size))


def grid_polygon(rng, size):
    """A valid polygon on a small grid, with touching and shared edges in mind."""
    while True:
        kind = rng.randrange(4)
        if kind == 0:
            (x1, y1), (x2, y2) = grid_point(rng, size), grid_point(rng, size)
            polygon = shapely.box(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
        elif kind == 1:
            polygon = Polygon([grid_point(rng, size) for _ in range(3)])
        else:  # star-shaped around a centre
            centre = (rng.uniform(1, size - 1), rng.uniform(1, size - 1))
            points = {grid_point(rng, size) for _ in range(rng.randint(4, 8))}
            angle = lambda p: math.atan2(p[1] - centre[1], p[0] - centre[0])
            points = sorted(points, key=angle)
            if len(points) < 3:
                continue
            polygon = Polygon(points)
        if kind == 3 and polygon.is_valid and polygon.area > 0:
            hole = Polygon([grid_point(rng, size) for _ in range(3)])
            if hole.is_valid and hole.area > 0 and polygon.covers(hole):
                polygon = Polygon(polygon.exterior.coords, [hole.exterior.coords])
        if polygon.is_valid and polygon.area > 0:
            return polygon


def grid_shape(rng, size, depth=0):
    kind = rng.randrange(10) if depth == 0 else rng.choice([0, 1, 5])
    def line():
        points = [grid_point(rng, size) for _ in range(rng.randint(2, 5))]
        # GEOS errs about lines of no length.
        return LineString(points) if len(set(points)) > 1 else line()
    if kind == 0:
        return Point(grid_point(rng, size))
    if kind == 1:
        return line()
    if kind in (2, 3, 4):
        return grid_polygon(rng, size)
    if kind == 5:
        return MultiPoint([grid_point(rng, size) for _ in range(rng.randint(1, 4))])
    if kind == 6:
        return MultiLineString([line() for _ in range(rng.randint(1, 3))])
    if kind in (7, 8):
        several = MultiPolygon([grid_polygon(rng, size) for _ in range(2)])
        return several if several.is_valid else grid_polygon(rng, size)
    # Without polygons: GEOS 3.14.1 errs about collections of polygons and points (relate.rs has cases).
    return GeometryCollection([grid_shape(rng, size, 2) for _ in range(rng.randint(1, 3))])


def float_shapes(rng, count):
    """Shapes with random bits, and points and lines on the edges of them, as far as rounding allows."""
    shapes = []
    while len(shapes) < count:
        corners = [(rng.uniform(0, 1), rng.uniform(0, 1)) for _ in range(3)]
        triangle = Polygon(corners)
        t = rng.random()
        (x1, y1), (x2, y2), third = corners
        on_edge = (x1 + (x2 - x1) * t, y1 + (y2 - y1) * t)
        shapes += [triangle, Point(on_edge), LineString([on_edge, third])]
    return shapes[:count]


def special_shapes():
    texts = ["POINT EMPTY", "LINESTRING EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY",
             "MULTIPOLYGON EMPTY", "LINESTRING(0 0,4 0,4 4,0 4,0 0)",
             "MULTILINESTRING((0 0,2 2),(2 2,4 4))", "MULTILINESTRING((0 0,2 2),(2 2,4 4),(2 2,4 0))",
             "LINESTRING(0 0,4 4,4 0,0 4)", "LINESTRING(0 0,4 0,2 0)",
             "MULTIPOLYGON(((0 0,2 0,2 2,0 2,0 0)),((2 2,4 2,4 4,2 4,2 2)))",
             "POLYGON((0 0,4 0,4 4,0 4,0 0),(0 0,2 1,1 2,0 0))",
             "POLYGON((0 0,6 0,6 6,0 6,0 0),(1 1,3 1,3 3,1 3,1 1),(3 3,5 3,5 5,3 5,3 3))",
             "GEOMETRYCOLLECTION(LINESTRING(0 0,4 0),POINT(2 0),POINT(9 9))",
             "GEOMETRYCOLLECTION(POINT EMPTY,LINESTRING(1 1,3 3))", "MULTIPOINT(1 1,1 1,2 2)"]
    return [shapely.from_wkt(text) for text in texts]


def with_middles(shape):
    """The same points with a position in the middle of every edge: exact on a grid."""
    def of_positions(xy):
        middles = [(xy[at] + xy[at + 1]) / 2 for at in range(len(xy) - 1)]
        return [p for pair in zip(xy, middles) for p in pair] + [xy[-1]]
    if shape.geom_type == "LineString" and not shape.is_empty:
        return LineString(of_positions(shapely.get_coordinates(shape)))
    if shape.geom_type == "Polygon" and not shape.is_empty:
        rings = [of_positions(shapely.get_coordinates(ring)) for ring in [shape.exterior, *shape.interiors]]
        return Polygon(rings[0], rings[1:])
    return shapely.reverse(shape)


def bits(a, b):
    return sum(1 << at for at, name in enumerate(PREDICATES) if getattr(shapely, name)(a, b))


def candidates(rng, groups):
    """Endless pairs inside the groups; in most of them the boxes share a point."""
    while True:
        first, shapes = rng.choice(groups)
        a, b = rng.randrange(len(shapes)), rng.randrange(len(shapes))
        apart = not shapely.intersects(shapely.envelope(shapes[a]), shapely.envelope(shapes[b]))
        if not apart or rng.random() < 0.05:
            yield first + a, first + b


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--shapes", type=int, default=100)
    parser.add_argument("--positions", type=int, default=60, help="of a piece of land, at most")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    sets = [real_shapes(rng, options.shapes, options.positions), [grid_shape(rng, 4) for _ in range(options.shapes)],
            [grid_shape(rng, 8) for _ in range(options.shapes)], float_shapes(rng, options.shapes // 2),
            special_shapes()]
    # Special shapes meet the grids, and some shapes meet equal ones of other positions.
    sets[1] += sets[4]
    sets[0] += [shapely.normalize(shapely.reverse(shape)) for shape in sets[0][:24]]
    for one in sets[1:3]:
        one += [with_middles(shape) for shape in one[:40]]
    groups, shapes = [], []
    for one in sets[:4]:
        groups.append((len(shapes), one))
        shapes += one
    print(f"# Shapely {shapely.__version__}, GEOS {shapely.geos_version_string}; see generate.py")
    # The text has 16 digits; a double may have 17.
    texts = [shapely.to_wkt(shape, rounding_precision=-1, trim=True) for shape in shapes]
    shapes = [shapely.from_wkt(text) for text in texts]
    for number, text in enumerate(texts):
        print(number, text, sep="\t")
    seen, repeated = set(), 0
    for a, b in candidates(rng, groups):
        if (a, b) in seen:
            repeated += 1
            if repeated > 10 * options.pairs:
                break
            continue
        seen.add((a, b))
        distance = shapely.distance(shapes[a], shapes[b])
        distance = "none" if math.isnan(distance) else f"{distance:.17g}"
        print(a, b, shapely.relate(shapes[a], shapes[b]), f"{bits(shapes[a], shapes[b]):x}", distance, sep="\t")
        if len(seen) == options.pairs:
            break


main()
