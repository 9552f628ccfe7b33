"""Where the class archive of local sessions lies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from replica_audit.setup.environment import Java
from replica_audit.setup.installation import share_directory


def archive_path(java: Java, jars: Sequence[Path]) -> Path:
    """Where the archive of this Java with these JARs lies; it need not exist.

    The name is a digest of the Java's version and home and of name, size and time of every JAR on the class path.
    """
    import pyspark

    own = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    digest = hashlib.sha256(f"{java.version}\n{java.home}\n".encode())
    for path in [*jars, *own]:
        status = path.stat()
        digest.update(f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return share_directory() / "classes" / f"{digest.hexdigest()[:16]}.jsa"
