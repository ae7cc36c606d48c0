"""Eight processes count words in one shared map: `python words.py FILE...` (without a file, this one)."""

import multiprocessing
import os
import re
import sys

import farwood



def begin(url):
    global words
    words = farwood.open(url).ordered("words", key=str, value=int)


def count(text):
    for word in re.findall(r"[a-z]+", text.lower()):
        words.incr(word)


def main():
    texts = [open(name, encoding="utf-8").read() for name in sys.argv[1:] or [__file__]]
    lines = [line for text in texts for line in text.splitlines()]
    url = f"shm://words-{os.getpid()}"
    with farwood.create(url, "256 MiB") as pool:
        with multiprocessing.Pool(8, begin, (url,)) as processes:
            processes.map(count, lines, chunksize=100)
        words = pool.ordered("words", key=str, value=int)
        top = sorted(words.items(), key=lambda entry: -entry[1])[:10]
        print(*(f"{number:6} {word}" for word, number in top), sep="\n")
    farwood.remove(url, force=True)


if __name__ == "__main__":
    main()
