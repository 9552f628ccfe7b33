"""The Python examples of README, docs and the notebook under pyright's strict rules: `python -m tests.docs.typed_examples`.

What a reader copies into an editor should not be underlined there. basedpyright is pyright in one wheel with a Node of its own;
pyright's own package loads both from the network when it is run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "build" / "examples"

#: The engines of docs/queries.md may not be here, and their packages and pyarrow leave types out, which strict rules report.
ENGINES = "# pyright: basic, reportMissingImports=false\n"
#: A cell shows the value of its last expression.
CELLS = "# pyright: reportUnusedExpression=false\n"
#: What an example that uses `spark` stands in: a session, as the docs say.
SESSION = "from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.getOrCreate()\n"


def examples() -> Iterator[tuple[str, str]]:
    """(name of a file, its text) of each example; the cells of the notebook are one."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, text in enumerate(
            re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE), 1
        ):
            before = SESSION if re.search(r"\bspark\b", text) else ""
            yield f"{page.stem}_{number}.py", (ENGINES if page.stem == "queries" else "") + before + text
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    yield (
        "notebook.py",
        CELLS + "\n".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"),
    )


def main() -> int:
    """Writes the examples and checks them; the checker's exit status."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for old in DIRECTORY.glob("*.py"):
        old.unlink()
    for name, text in examples():
        (DIRECTORY / name).write_text(text)
    settings = {"include": ["."], "typeCheckingMode": "strict", "venvPath": str(ROOT), "venv": ".venv"}
    (DIRECTORY / "pyrightconfig.json").write_text(json.dumps(settings))
    return subprocess.run([sys.executable, "-m", "basedpyright", "--project", str(DIRECTORY)]).returncode


if __name__ == "__main__":
    sys.exit(main())
