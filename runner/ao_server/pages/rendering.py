"""Templates and what each of them gets. All text is escaped, and characters that hide or reorder text are shown."""

from gzip import compress
from hashlib import sha256
from http import HTTPStatus
from os import PathLike, stat_result
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ao_runner.odd_characters import visible
from ao_runner.store.run_filter import RUNS_WITH_RESULTS

STATIC: Final = Path(__file__).parent / "static"
RELEASE: Final = sha256(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))).hexdigest()[:12]
"""What the addresses of these files end with: browsers keep them until a release has others."""
THEME_COOKIE: Final = "ao_theme"
SAID_COOKIE: Final = "ao_said"
"""What the last action did, for the next page."""
MOST_SAID: Final = 300
LEAST_COMPRESSED: Final = 1_000
"""Bytes of an answer below which compression gains nothing."""
NAVIGATION: Final = (
    ("/ui/runs", "Runs"),
    ("/ui/sessions", "Sessions"),
    ("/ui/agents", "Agents"),
    ("/ui/schemas", "Schemas"),
    ("/ui/workers", "Workers"),
    ("/ui/inbox", "Inbox"),
    ("/ui/usage", "Usage"),
    ("/ui/actions", "Actions"),
    ("/openapi.json", "API"),
)


def _shown(value: object) -> object:
    """Return what a template writes for a value. Markup passes; it is escaped otherwise."""
    return visible(value) if type(value) is str else value


def verbatim(text: str) -> Markup:
    """Return a text for the value of a form field, which must come back unchanged."""
    return escape(text.encode(errors="replace").decode())


templates: Final = Environment(
    loader=PackageLoader("ao_server.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_shown,
)
templates.filters["verbatim"] = verbatim
templates.filters["urlencode"] = lambda value: quote(str(value), safe="")  # Jinja's own leaves slashes
templates.filters["html"] = Markup  # of fragments that are rendered already
templates.globals["is_update"] = False
templates.globals["runs_with_results"] = RUNS_WITH_RESULTS
templates.globals["navigation"] = NAVIGATION
templates.globals["release"] = RELEASE


def can_act(request: Request) -> bool:
    """Return whether the sender of a request may change something: then pages show actions."""
    return getattr(request.state, "role", None) in {None, "client"}


def page(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """Return a page: a template that extends `base.html`."""
    theme = request.cookies.get(THEME_COOKIE, "")
    shared = {
        "path": request.url.path,
        "theme": theme if theme in {"light", "dark"} else "",
        "can_act": can_act(request),
        "role": getattr(request.state, "role", None),
        "who": getattr(request.state, "who", None),
        "said": unquote(request.cookies.get(SAID_COOKIE, ""))[:MOST_SAID],
    }
    answer = smaller(request.headers.get("accept-encoding", ""), html(fragment(template, **shared, **values), status))
    if shared["said"]:
        answer.delete_cookie(SAID_COOKIE, httponly=True, samesite="lax")
    return answer


def smaller(accepted: str, answer: Response) -> Response:
    """Return an answer, compressed if that is accepted: pages are mostly markup that repeats itself."""
    if "gzip" not in accepted or len(answer.body) < LEAST_COMPRESSED:
        return answer
    answer.body = compress(bytes(answer.body), 6, mtime=0)
    answer.headers["content-length"] = str(len(answer.body))
    answer.headers["content-encoding"] = "gzip"
    answer.headers["vary"] = ", ".join(filter(None, [answer.headers.get("vary"), "Accept-Encoding"]))
    return answer


def see(address: str, said: str = "") -> RedirectResponse:
    """Lead to a page, which shows once what was done."""
    answer = RedirectResponse(address, HTTPStatus.SEE_OTHER)
    if said:
        answer.set_cookie(SAID_COOKIE, quote(said[:MOST_SAID]), 30, httponly=True, samesite="lax")
    return answer


def html(text: str, status: int = 200) -> Response:
    """Return HTML as an answer."""
    return HTMLResponse(text, status, {"Cache-Control": "no-store", "Vary": "Accept"})


def fragment(template: str, **values: object) -> str:
    """Return a rendered template."""
    return templates.get_template(template).render(values)


class _SmallFiles(StaticFiles):
    """Answers with the whole text of a file: clients that do not read it must not hold an open file."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the answer with a file."""
        answer = super().file_response(full_path, stat_result, scope, status_code)
        if scope["query_string"] == RELEASE.encode():
            answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        if not isinstance(answer, FileResponse):
            return answer
        accepted = Headers(scope=scope).get("accept-encoding", "")
        return smaller(accepted, Response(Path(full_path).read_bytes(), answer.status_code, answer.headers))


def serve_static_files(app: FastAPI) -> None:
    """Add the style sheet and the scripts."""
    app.mount("/static", _SmallFiles(directory=STATIC), name="static")
