"""Why a value is refused: a walk into whatever refuses it, one problem at a time.

The engine gives the verdicts and this gives the words, so the two cannot disagree: only what the engine refuses
is entered, and what it refuses for a reason unknown here is told without one. Nothing recurses; nobody who stops
reading pays for the rest.
"""

from collections.abc import Iterator

from ao_protocol.output.judging.applicators import APPLICATORS, explain_applicator
from ao_protocol.output.judging.assertions import SENTENCES, explain_assertion
from ao_protocol.output.judging.references import dereferenced
from ao_protocol.output.judging.steps import Site, Steps
from ao_protocol.output.problems import Problem, shown


def explain(site: Site) -> Iterator[Problem]:
    """Yield the problems of a value that the site's schema refuses, at least one.

    The order is that of the schema's keywords and of the value's members. A part of a schema that is reached
    twice at one place is told once.
    """
    # A key is judged at the place of its object, so the place alone does not say which value it is.
    visited: set[tuple[str, str, int]] = set()
    stack: list[Steps] = [iter([site])]
    while stack:
        step = next(stack[-1], None)
        match step:
            case None:
                stack.pop()
            case Problem():
                yield step
            case Site(pointer=pointer, path=path, value=value) if (pointer, path, id(value)) not in visited:
                visited.add((pointer, path, id(value)))
                stack.append(_steps_from(step))
            case Site():
                pass


def _steps_from(site: Site) -> Steps:
    site = dereferenced(site)
    if site.schema is False:
        yield site.problem(f"False schema does not allow {shown(site.value)}")
        return
    explained = False
    for keyword in site.schema:
        for step in _explain_keyword(site, keyword):
            explained = True
            yield step
    if not explained:
        yield site.problem(f"{shown(site.value)} is not valid under the schema at {site.pointer or 'its root'}")


def _explain_keyword(site: Site, keyword: str) -> Steps:
    if keyword in SENTENCES:
        return explain_assertion(site, keyword)
    if keyword in APPLICATORS:
        return explain_applicator(site, keyword)
    return iter(())
