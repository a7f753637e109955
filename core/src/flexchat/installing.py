"""What to type to get a package: the one place that says it, for every hint."""

from __future__ import annotations

from pathlib import Path


def how_to_install(package: str, extra: str = "") -> str:
    """Return what to type: "pip install flexchat-openai", or its folder of the checkout that this code runs from.

    Args:
        extra: Of the package: "regex" gives "pip install 'flexchat-core[regex]'".
    """
    checkout = Path(__file__).parents[3]
    folders = {"flexchat": ".", "flexchat-core": "./core"}
    wanted = package
    for folder in (folders.get(package, f"./{package}"), f"./plugins/{package}"):
        # The core's own folder tells a checkout from a folder that merely has such a file.
        if (checkout / folder / "pyproject.toml").is_file() and (checkout / "core" / "pyproject.toml").is_file():
            wanted = folder
            break
    return f"pip install '{wanted}[{extra}]'" if extra else f"pip install {wanted}"
