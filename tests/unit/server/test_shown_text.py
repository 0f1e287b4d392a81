"""What pages show of texts that agents write."""

import pytest

from ao_protocol.short_text import Excerpt
from ao_runner.odd_characters import visible
from ao_server.pages.rendering import templates, verbatim
from ao_server.pages.run_view import duration, money, tokens
from ao_server.pages.timeline import cut, in_one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Grüße, 世界 👩‍💻\n\tline", "Grüße, 世界 👩‍💻\n\tline"),
        ("\x1b[2Jgone", "⟨U+001B⟩[2Jgone"),
        ("a\u202eb\u2066c\u200fd", "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩d"),
        ("pass\u200bword\ufeff", "pass⟨U+200B⟩word⟨U+FEFF⟩"),
        ("half \ud83d pair", "half ⟨U+D83D⟩ pair"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
    ],
    ids=["usual", "escape", "bidi", "invisible", "surrogate", "tag"],
)
def test_characters_that_hide_or_reorder_text_are_named(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert templates.from_string("{{ text }}").render(text=text) == shown


def test_templates_escape_html_in_texts_and_attributes() -> None:
    template = templates.from_string('<a title="{{ text }}">{{ text }}</a>')
    escaped = "&#34;&gt;&lt;b&gt;"
    assert template.render(text='"><b>') == f'<a title="{escaped}">{escaped}</a>'


def test_the_value_of_a_field_comes_back_as_it_was() -> None:
    template = templates.from_string("<textarea>{{ text | verbatim }}</textarea>")
    assert template.render(text="a\u200b</textarea>") == "<textarea>a\u200b&lt;/textarea&gt;</textarea>"
    assert verbatim("\ud83d") == "?"


def test_a_long_text_is_cut_by_characters_and_by_lines() -> None:
    assert cut("a" * 5000) == Excerpt("a" * 2000, 3000)
    assert cut("a\n" * 100) == Excerpt("\n".join(["a"] * 60), 81)
    assert cut("short\r\ntext") == Excerpt("short\ntext")
    assert in_one_line({"a": "b\nc"}) == '{"a": "b\\nc"}'


def test_figures_are_short() -> None:
    assert [duration(seconds) for seconds in (0.44, 59, 61, 7325)] == ["0.4 s", "59.0 s", "1 min 1 s", "2 h 2 min"]
    assert [money(dollars) for dollars in (0, 0.0421, 1234.5)] == ["$0.0000", "$0.0421", "$1,234.50"]
    assert [tokens(number) for number in (0, 9999, 12_400, 4_100_000)] == ["0", "9,999", "12.4k", "4.1M"]
