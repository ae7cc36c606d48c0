"""``python -m farwood`` runs the command ``farwood``, which is a program of its own."""

import os
import shutil
import sys


def main():
    command = os.environ.get("FARWOOD_COMMAND") or shutil.which("farwood")
    if command is None:
        sys.exit(
            "farwood: the command is not installed; build it with `cargo install --path crates/cli` and put it into "
            "PATH, or name it in FARWOOD_COMMAND"
        )
    os.execv(command, ["farwood", *sys.argv[1:]])


if __name__ == "__main__":
    main()
