"""Environments of their own for tests that want a package from the index."""

import os
import pathlib
import subprocess
import venv


def python_with(package):
    """The Python of an environment in the cache that has `package` (name==version), installed there when it is first
    asked for. Raises RuntimeError where pip cannot install it."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "khost" / ("test-" + package.replace("==", "-"))
    python = folder / "bin" / "python"
    if not (folder / "whole").exists():
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"needs the package {package}, which pip could not install: {done.stderr.strip()[-200:]}")
        (folder / "whole").touch()
    return str(python)
