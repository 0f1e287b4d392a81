"""The list of runs."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.responses import Response

from ao_server.pages.errors import wants_html
from ao_server.pages.rendering import page

routes = APIRouter(include_in_schema=False)


@routes.get("/")
async def begin(request: Request) -> Response:
    """Lead a browser to the runs, and say to programs where the API is."""
    if wants_html(request):
        return RedirectResponse("/ui/runs", 303)
    return JSONResponse({"api": "/openapi.json", "pages": "/ui/runs", "health": "/health"})


@routes.get("/ui/runs")
async def list_runs(request: Request) -> Response:
    """Show the runs."""
    return page(request, "runs.html")
