"""The report's texts: strangers' names stay text."""

from pipeline.activity.report import Section, as_html, as_markdown

HOSTILE = Section("Ranking", None, ("page",), [("<script>alert(1)</script>|x\n# y",), ("a" * 500,)])


def test_html_shows_markup_as_text() -> None:
    text = as_html("Activity <x>", "today", [HOSTILE])
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "Activity &lt;x&gt;" in text
    assert "a" * 100 not in text


def test_a_markdown_cell_stays_in_its_row() -> None:
    lines = as_markdown("Activity", "today", [HOSTILE]).splitlines()
    [row] = [line for line in lines if "script" in line]
    assert "\\<script\\>" in row and "\\|x?\\# y" in row
    assert row.replace("\\|", "").count("|") == 2


def test_a_section_without_rows_says_so() -> None:
    assert "No incident." in as_markdown(
        "A", "b", [Section("Operations", None, ("rule",), [], "No incident.")]
    )
