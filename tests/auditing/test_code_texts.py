"""The prose of codes: one Markdown file per family, read strictly, from a directory and from a zip."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import replica_audit
from replica_audit.auditing.catalogue import CATALOGUE, FAMILIES, CodeText, code_text, parse_family
from replica_audit.auditing.finding import Code

LIBRARY = Path(replica_audit.__file__).parent
LONG, SHORT = Code("LOG-LONG", ("high", "low"), ("INCONCLUSIVE",)), Code("LOG-SHORT", ("low",))
#: Prefixed with what one test has more.
ITEMS = "- When: it is\n- Meaning: It is\n  long: very.\n- Proof: Both ends.\n- Remedy: None.\n"
FAMILY = (
    f"# LOG: logs\n\n## LOG-LONG\n\nA long\nlog\n\n{ITEMS}- low: where\n  short\n\n## LOG-SHORT\n\nA log\n\n{ITEMS}"
)


def test_a_family_is_read():
    family = parse_family(FAMILY, "LOG", [LONG, SHORT])
    assert family.subject == "logs"
    said = CodeText("A long log", "it is", "It is long: very.", "Both ends.", "None.", "", {"low": "where short"})
    assert family.codes == {"LOG-LONG": said, "LOG-SHORT": said._replace(summary="A log", conditions={})}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# LOG: logs", "# EPO: logs", "# EPO has LOG-LONG, LOG-SHORT"),
        ("## LOG-SHORT", "## LOG-LONG", "LOG: # LOG has LOG-LONG"),
        ("## LOG-SHORT", "## LOG-OTHER", "LOG-LONG, LOG-OTHER"),
        ("- Remedy: None.", "- Proof: None.", "a word twice"),
        ("- Remedy: None.", "- Cure: None.", "LOG-LONG: not a text of it"),
        ("- low: where", "- critical: where", "LOG-LONG: not a text of it"),
        ("A long\nlog\n", "", "LOG-LONG: not a text of it"),
        ("- Meaning: It is\n  long: very.\n", "", "LOG-LONG: not a text of it"),
    ],
)
def test_a_family_that_says_too_little_or_too_much_is_refused(old, new, problem):
    with pytest.raises(ValueError, match=problem):
        parse_family(FAMILY.replace(old, new), "LOG", [LONG, SHORT])


def test_a_code_of_another_version_has_no_text():
    with pytest.raises(KeyError):
        code_text("LOG-LONG")


def test_every_file_of_texts_is_of_a_family():
    files = (LIBRARY / "auditing" / "findings").glob("*.md")
    assert sorted(path.stem.upper() for path in files) == sorted(FAMILIES)


def test_texts_are_read_from_the_zip_that_executors_import(tmp_path):
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        for path in LIBRARY.rglob("*"):
            archive.write(path, path.relative_to(LIBRARY.parent))
    read = "from replica_audit.auditing.catalogue import *\nprint(code_text.__code__.co_filename)\n" + "".join(
        f"assert code_text({code!r})\n" for code in CATALOGUE
    )
    done = subprocess.run(
        [sys.executable, "-c", read], env={"PYTHONPATH": str(tmp_path / "lib.zip")}, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(tmp_path / "lib.zip")), done.stderr


def test_no_text_is_read_before_it_is_asked_for():
    read = "import replica_audit.cli.show_command\nfrom replica_audit.auditing.catalogue import family_text\n"
    read += "print(family_text.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
