"""`helm install` of the documents, as far as it goes without a cluster: the chart renders with its values."""

import itertools
import shlex

import helm_python

from tests.e2e.docs_commands import all_lines
from tests.integration.stack import ROOT


def test_what_pages_install_renders() -> None:
    lines = list(all_lines("helm install "))
    assert lines
    for line in lines:
        _, _, name, chart, *options = shlex.split(line)
        values: dict[str, dict[str, str]] = {}
        for flag, value in itertools.pairwise(options):
            if flag == "--set":
                path, _, text = value.partition("=")
                part, _, key = path.partition(".")
                values.setdefault(part, {})[key] = text
        namespace = options[options.index("-n") + 1]
        with helm_python.Chart.load(ROOT / chart) as loaded:
            files = loaded.render(values, name=name, namespace=namespace)
        text = "".join(files.values())
        for settings in values.values():
            assert all(value in text for value in settings.values()), line
