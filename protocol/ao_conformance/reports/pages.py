"""The reports for people: a self-contained web page, and a Markdown page for folders of docs and for GitHub.

Both are templates. A text that a template inserts is made harmless unless the template marks it as safe: hostile text
becomes visible and has no effect. jinja2 is imported when a page is made.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from shlex import join
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.reports import overview
from ao_conformance.reports.overview import kept_of_applicable, missing_in_short, next_level, overview_of
from ao_conformance.reports.transcript_rows import code_spans, encodable, excerpt, one_line, transcript_rows, visible
from ao_conformance.verdict import BROKEN, SuiteResult, VectorResult, Verdict
from ao_protocol.short_text import shorten_with_length

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_PROSE: Final = 600
MAX_LINE: Final = 300
MAX_TEXT: Final = 4_000
HTML_ROWS: Final = 60
HTML_EXHIBITS: Final = 20
MARKDOWN_ROWS: Final = 14
MARKDOWN_EXHIBITS: Final = 3
MARKDOWN_NAMES: Final = 12
OF_BOTH_PAGES: Final = (
    *(
        "PROTOCOL_NAME",
        "SIGNS",
        "WORDS",
        "amount",
        "by_reason",
        "by_section",
        "counts",
        "counts_text",
        "headline",
        "looked_at_in",
    ),
    *("missing_in_short", "next_level", "scope", "seed_text", "verdict_word", "who"),
)
"""The names from the module `overview` that both templates use."""
_MARKUP: Final = re.compile(r"[\\`*\[\]~$#]|(?<![^\W_])_|_(?![^\W_])")
"""The characters with a meaning in the middle of a line, in GitHub's dialect too."""
_AS_ENTITY: Final = re.compile(r"[<>&|@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""The text that a backslash does not escape in every dialect: tags, entities, table cells, mentions, bare links."""

_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
"""The beginning of a tag. In fenced code it has no effect, but not every reader of Markdown knows fences."""


def html_text(result: SuiteResult) -> str:
    """Return the web page: one file, no network, no script. The executable's output is in it as text only."""
    said = json.dumps(dict(result.description), ensure_ascii=False, indent=2, default=str) if result.description else ""
    template = _html_environment().get_template("page.html.j2")
    return template.render(**_facts(result), parts=_parts(result), description=encodable(said)).lstrip() + "\n"


def markdown_text(result: SuiteResult) -> str:
    """Return the Markdown page. The executable's output is in fenced code or escaped."""
    return _markdown_environment().get_template("page.md.j2").render(**_facts(result)).strip("\n") + "\n"


def prose(text: str, *, in_table: bool = False) -> str:
    """Return a sentence as Markdown on one line: its code stays code, and everything else is escaped."""
    pieces = []
    for is_code, piece in code_spans(one_line(text, MAX_PROSE)):
        if is_code and not (in_table and "|" in piece):
            pieces.append(f"`{piece}`")
        else:
            pieces.append(_AS_ENTITY.sub(lambda found: f"&#{ord(found[0])};", _MARKUP.sub(r"\\\g<0>", piece)))
    return "".join(pieces).strip() or "&nbsp;"


def fenced(text: str, language: str = "text") -> str:
    """Return text as a code block in Markdown, with a fence longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


@cache
def _html_environment() -> "Environment":
    from markupsafe import Markup

    def as_html(text: str) -> Markup:
        pieces = code_spans(visible(text))
        return Markup("").join(
            Markup("<code>{}</code>").format(piece) if is_code else piece for is_code, piece in pieces
        )

    environment = _environment(visible)
    environment.filters |= {"prose": as_html, "shortened": lambda text: shorten_with_length(text, MAX_TEXT)}
    environment.globals |= {
        "MAX_EXHIBITS": HTML_EXHIBITS,
        "rows": lambda transcript, line: excerpt(transcript_rows(transcript, line), HTML_ROWS),
        "has_article": lambda requirement: requirement.verdict in BROKEN | {Verdict.WARN},
        "is_broken": lambda verdicts: not BROKEN.isdisjoint(verdicts),
    }
    return environment


@cache
def _markdown_environment() -> "Environment":
    from markupsafe import Markup

    def safe(text: str) -> Markup:
        return Markup(text)  # noqa: S704  # it is escaped for Markdown

    def as_block(text: str, language: str = "text") -> Markup:
        return safe(fenced(visible(text), language))

    environment = _environment(lambda text: safe(prose(text)))
    environment.filters |= {"cell": lambda text: safe(prose(text, in_table=True)), "fenced": as_block}
    environment.globals |= {
        "MAX_EXHIBITS": MARKDOWN_EXHIBITS,
        "MAX_NAMES": MARKDOWN_NAMES,
        "transcript_text": _transcript_text,
    }
    return environment


def _environment(make_harmless: "Callable[[str], str | Markup]") -> "Environment":
    """Return an environment that makes every text harmless that is not markup yet, before it escapes the text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: object) -> object:
        return make_harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("ao_conformance.reports", "."),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {name: getattr(overview, name) for name in OF_BOTH_PAGES}
    return environment


def _facts(result: SuiteResult) -> Mapping[str, Any]:
    return {
        "result": result,
        "overview": overview_of(result),
        "applicable": [each for each in result.requirements if each.verdict is not Verdict.NOT_APPLICABLE],
        "command": join(result.command),
    }


def _parts(result: SuiteResult) -> list[tuple[str, str]]:
    """Return the name and the title of each part of the web page that is not empty."""
    parts = overview_of(result)
    sizes = [
        ("failures", "Failures", len(parts.broken)),
        ("unjudged", "Vectors that could not be judged", len(parts.unjudged)),
        ("expectations", "Lists that do not fit", len(result.stale) + len(result.unstable)),
        ("missing", f"Missing to {next_level(result)}", len(missing_in_short(result)) if result.reached else 0),
        ("warnings", "Warnings", len(parts.warned)),
        ("known", "Known failures", len(parts.known)),
        ("requirements", "Requirements", kept_of_applicable(result)[1]),
        ("never-exercised", "Never exercised", len(parts.never_exercised)),
        ("not-applicable", "Not applicable", len(parts.not_applicable)),
        ("vectors", "Vectors", len(result.vectors)),
    ]
    numbered = [(name, f"{title} ({size})") for name, title, size in sizes if size]
    return [*numbered, *([("description", "Description")] if result.description else [])]


def _transcript_text(vector: VectorResult, line: int | None) -> str:
    lines = []
    for row in excerpt(transcript_rows(vector.transcript, line), MARKDOWN_ROWS):
        lines += [f"   … {row.left_out:,} left out"] if row.left_out else []
        begin = f"{'>' if row.marked else ' '}{row.seconds:8.3f} {row.channel:>6} {row.line or '':>4}"
        text = _TAG.sub(r"\\x3c", one_line(row.text, MAX_LINE))
        lines.append(f"{begin}  {text}".rstrip())
    return "\n".join(lines)
