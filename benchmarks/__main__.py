"""`make bench`: measures speed and size on this machine. `ARGS="collector"` runs only the modules named.

`ARGS=--publish` also writes deploy/bench.md and its picture, the comparison with other programs, three rounds of each;
and the picture of how cost grows.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

PUBLISHED = ("peers", "scale")


def main(arguments: list[str]) -> None:
    names = [argument for argument in arguments if argument != "--publish"]
    publish = len(names) < len(arguments)
    found = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    unknown = set(names) - set(found)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    for name in names or found:
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "main"):
            print(f"\n== {name}", flush=True)
            module.main(**({"publish": True} if publish and name in PUBLISHED else {}))


if __name__ == "__main__":
    main(sys.argv[1:])
