"""The page of a report, and what is in it."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any

from replica_audit.auditing.known_findings import Earlier
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.document import render_page
from replica_audit.results import Results


class Page(HTMLParser):
    """The page as a browser's parser sees it: tags, text, and the contents of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.style = ""
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._inside == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def unpack(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The overview and the pieces of details."""
        packed = [text for attributes, text in self.scripts if attributes.get("type") == "text/plain"]
        first, *others = [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]
        return first, others


def page_of(found: Results, earlier: Earlier | None = None) -> Page:
    return Page(render_page(found, build_verdict(found, "high"), earlier))
