"""Local S3 servers (`make test-s3`), and credentials that nothing may show."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "s3" / "bin" / "python"

#: What no output may hold.
SECRETS = ("AKIAPLANTEDKEYOFATEST", "planted/secret+of-a-test")


@dataclass(frozen=True)
class Store:
    """One server, and the bucket in it."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that Arrow, deltalake and every other client of S3 take."""
        return {
            "AWS_ACCESS_KEY_ID": SECRETS[0],
            "AWS_SECRET_ACCESS_KEY": SECRETS[1],
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def requests(self) -> list[dict]:
        """Requests received so far."""
        with urllib.request.urlopen(f"{self.url}/requests") as answer:
            return json.load(answer)


def start(mode: str) -> Iterator[Store]:
    with subprocess.Popen(
        [PYTHON, ROOT / "tests" / "s3" / "server.py", mode], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            store = Store(int(server.stdout.readline()))
            urllib.request.urlopen(urllib.request.Request(f"{store.url}/bucket", method="PUT")).close()
            yield store
        finally:
            server.terminate()
