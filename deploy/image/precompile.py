"""Compiles ahead what the collector imports: the image is read-only, and its base has no compiled library.

    python precompile.py CACHE    fills CACHE, which is PYTHONPYCACHEPREFIX in the image

A file compiled here counts for a source with the same content, whatever its time: a base with another patch of Python's
library is still right, and only slower.
"""

from __future__ import annotations

import importlib
import pkgutil
import py_compile
import sys
import sysconfig
from pathlib import Path


def main(cache: str) -> None:
    sys.pycache_prefix = cache
    for package in ("onpath", "onpath_collector"):
        _import_all(package)
    known = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {file for file in known if file is not None and file.endswith(".py")}
    files |= {str(file) for file in Path(sysconfig.get_path("stdlib"), "encodings").glob("*.py")}
    for file in sorted(files):
        py_compile.compile(file, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    sys.stdout.write(f"{len(files)} modules compiled\n")


def _import_all(package: str) -> None:
    """Leaves out what needs an extra that is not in the image."""
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            sys.stdout.write(f"left out: {module.name} (needs {error.name})\n")


if __name__ == "__main__":
    main(sys.argv[1])
