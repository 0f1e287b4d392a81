"""XML documents of the format to draw at random, and single changes to them, of which most make them invalid."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

KNOWN_NAMES = "summary findings finding issue rationale suggestion results files file answer error agent_specific"
NAMES = ["agent_response", *KNOWN_NAMES.split(), "other", "Summary"]


@dataclass(frozen=True)
class Tree:
    """An element: its text stands before its children."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: tuple["Tree", ...] = ()
    is_cdata: bool = False

    def written(self) -> str:
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes.items())
        is_cdata = self.is_cdata and "]]>" not in self.text
        text = f"<![CDATA[{self.text}]]>" if is_cdata else escape(self.text, {"\r": "&#13;"})
        return f"<{self.name}{attributes}>{text}{''.join(child.written() for child in self.children)}</{self.name}>"

    def paths(self) -> Iterator[tuple[int, ...]]:
        yield ()
        for index, child in enumerate(self.children):
            yield from ((index, *path) for path in child.paths())

    def at(self, path: tuple[int, ...]) -> "Tree":
        return self.children[path[0]].at(path[1:]) if path else self

    def with_part(self, path: tuple[int, ...], *parts: "Tree") -> Self:
        """Return this tree with other elements, or none, in the place of the one below it at `path`."""
        index, *rest = path
        new = (self.children[index].with_part(tuple(rest), *parts),) if rest else parts
        return replace(self, children=(*self.children[:index], *new, *self.children[index + 1 :]))


blank = st.sampled_from(["", " ", "\n\t ", "\r\n"])
text = st.sampled_from(["a", " a b ", "x < y && z", "]]>", "\u2028", "é\U0001f642", "\n  two\n  lines\n", "&amp;"])
any_text = text | blank


def leaf(name: str, content: st.SearchStrategy[str]) -> st.SearchStrategy[Tree]:
    return st.builds(Tree, name=st.just(name), text=content, is_cdata=st.booleans())


@st.composite
def parts(
    draw: st.DrawFn, name: str, required: list[st.SearchStrategy[Tree]], optional: list[st.SearchStrategy[Tree]]
) -> Tree:
    """Draw an element with each required part and some of the optional ones, in any order."""
    chosen = [draw(part) for part in required] + [draw(part) for part in optional if draw(st.booleans())]
    return Tree(name, text=draw(blank), children=tuple(draw(st.permutations(chosen))))


@st.composite
def lists(draw: st.DrawFn, name: str, item: st.SearchStrategy[Tree]) -> Tree:
    return Tree(name, text=draw(blank), children=tuple(draw(st.lists(item, max_size=2))))


@st.composite
def findings(draw: st.DrawFn) -> Tree:
    drawn = draw(parts("finding", [leaf("issue", text), leaf("rationale", any_text)], [leaf("suggestion", any_text)]))
    priority = draw(st.sampled_from(["P1", "P2", "P3"]))
    return replace(drawn, attributes={"priority": priority, "location": draw(any_text)})


files = st.builds(
    Tree, name=st.just("file"), attributes=st.fixed_dictionaries({"path": text}), text=any_text, is_cdata=st.just(False)
)
own = st.recursive(
    st.builds(Tree, name=st.sampled_from(["own", "summary", "agent_response"]), text=any_text),
    lambda inner: st.builds(
        Tree,
        name=st.sampled_from(["own", "choice"]),
        attributes=st.dictionaries(st.sampled_from(["x", "priority"]), any_text, max_size=1),
        text=any_text,
        children=st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=4,
)


@st.composite
def documents(draw: st.DrawFn) -> Tree:
    """Draw a document that keeps the XSD."""
    results = parts("results", [], [lists("files", files), leaf("answer", any_text)])
    specific = own.map(lambda tree: replace(tree, name="agent_specific"))
    optional = [lists("findings", findings()), results, leaf("error", any_text), specific]
    root = draw(parts("agent_response", [leaf("summary", text)], optional))
    version = draw(st.sampled_from([{}, {"version": "1.0"}]))
    return replace(root, attributes={"agent": draw(text), **version})


@st.composite
def changed_documents(draw: st.DrawFn) -> Tree:
    """Draw a document with one change, which need not make it invalid."""
    root = draw(documents())
    path = draw(st.sampled_from(list(root.paths())))
    found = root.at(path)
    changes = [
        replace(found, attributes={name: value for name, value in found.attributes.items() if name != dropped})
        for dropped in found.attributes
    ]
    changes += [replace(found, attributes={**found.attributes, name: draw(any_text)}) for name in found.attributes]
    changes += [
        replace(found, attributes={**found.attributes, draw(st.sampled_from(["x", "path", "agent", "Priority"])): "a"}),
        replace(found, text=draw(any_text), is_cdata=False),
        replace(found, children=(*found.children, Tree(draw(st.sampled_from(NAMES)), text=draw(any_text)))),
        replace(found, children=found.children * 2),
        replace(found, children=found.children[:-1]),
        replace(found, name=draw(st.sampled_from(NAMES))),
    ]
    if "version" in found.attributes:
        versions = st.sampled_from(["", "1", "1.00", " 1.0", "2.0", "1.0.0", "0.9"])
        changes.append(replace(found, attributes={**found.attributes, "version": draw(versions)}))
    if "priority" in found.attributes:
        priorities = st.sampled_from(["", "P4", "p1", " P1", "P1\n"])
        changes.append(replace(found, attributes={**found.attributes, "priority": draw(priorities)}))
    change = draw(st.sampled_from(changes))
    if not path:
        return change
    return root.with_part(path, *draw(st.sampled_from([(change,), (), (found, found)])))
