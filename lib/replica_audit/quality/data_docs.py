# ruff: noqa: I001  (our `package` goes before any module of Great Expectations)
"""Data Docs that need no other host: Great Expectations' pages in our own frame, with our styles and script.

Its own frame loads Bootstrap, jQuery and the rest from six hosts and draws the index with them: offline that page is
empty. Templates are compiled once per run, not per page.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from importlib.resources import files

from replica_audit.quality import package  # noqa: F401

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.data_context.store.store import DataDocsSiteConfigTypedDict
from great_expectations.render import RenderedDocumentContent
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, DictLoader, Environment

SITE = "replica-audit"


class _Site(DataDocsSiteConfigTypedDict):
    """Keys that the package's own type leaves out."""

    show_how_to_buttons: bool
    site_section_builders: dict[str, object]


def data_docs_site(directory: str) -> _Site:
    """The configuration of a Data Docs site in `directory`, which is emptied: a report shows one audit."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    page = {"module_name": __name__, "class_name": "LocalPageView"}
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": os.path.abspath(directory)},
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "view": {"module_name": __name__, "class_name": "LocalIndexPageView"},
        },
        "site_section_builders": {
            "expectations": {"view": page},
            "validations": {"view": page, "renderer": {"module_name": __name__, "class_name": "PlacesRenderer"}},
            "profiling": "None",
        },
    }


def finish_data_docs(directory: str) -> None:
    """Remove pictures and fonts (3 MB) that none of our pages shows."""
    shutil.rmtree(os.path.join(directory, "static"), ignore_errors=True)


def _template(name: str) -> str:
    return files(__package__).joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def _environment(ours: Environment) -> Environment:
    script = _template("docs.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    frame = _template("page.html")
    templates = {
        "page.j2": frame,
        "index_page.j2": frame,
        "bootstrap_table.j2": _template("table.html"),
        "page_action_card.j2": _template("filter.html"),
        "graph.j2": _template("graph.html"),
        **dict.fromkeys(
            ("js_script_imports.j2", "favicon.j2", "top_navbar.j2", "cloud-footer.j2", "cta_footer.j2"), ""
        ),
    }
    ours.loader = ChoiceLoader([DictLoader(templates), *([ours.loader] if ours.loader else [])])
    ours.globals.update(docs_style=_template("docs.css"), docs_script=script, docs_script_digest=digest)
    return ours


class PlacesRenderer(ValidationResultsPageRenderer):
    """A page of validation results that names the rows which break an expectation, and their table.

    The package shows values only, unless all rows are kept, possibly millions. It also looks for the name of the data
    where only older versions put it.
    """

    def render(
        self, validation_results: ExpectationSuiteValidationResult, suite_parameters: dict[str, object] | None = None
    ) -> RenderedDocumentContent:
        validation_results.meta["batch_spec"]["data_asset_name"] = validation_results.asset_name
        for one in validation_results.results:
            named = (one.result or {}).get("partial_unexpected_index_list")
            if named:
                one.result["unexpected_index_list"] = named
        return super().render(validation_results, suite_parameters)


class LocalPageView(DefaultJinjaPageView):
    """A page of Data Docs in our frame."""

    _shared: Environment | None = None

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        if LocalPageView._shared is None:
            LocalPageView._shared = _environment(self.env)
        self.env = LocalPageView._shared


class LocalIndexPageView(LocalPageView):
    """The index of Data Docs in our frame."""

    _template = "index_page.j2"
