"""Keyset pagination in a small web service: `uvicorn pages:app --workers 4`.

Every worker opens the same map by name. A page is one short scan from the last key of the page before, so page 10,000 is
as fast as page 1, and no page repeats or skips an entry when others are added.
"""

import os
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query

import farwood

app = FastAPI()
pool = farwood.open(os.environ.get("PAGES_URL", "shm://pages"), create=True, memory="256 MiB")
articles = pool.ordered("articles", key=str, value="json")


@app.put("/articles/{name}")
def store(name: str, article: dict):
    return {"replaced": articles.put(name, article)}


@app.get("/articles/{name}")
def read(name: str):
    article = articles.get(name)
    if article is None:
        raise HTTPException(404, f"there is no article {name!r}")
    return article


@app.get("/articles")
def page(after: str | None = None, prefix: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20):
    entries = list(articles.items(prefix=prefix, after=after, limit=limit))
    return {"articles": dict(entries), "after": entries[-1][0] if entries else None}
