"""Every public name says what it is, what its arguments are and what comes back.

Public is what has no underscore in front. A function is described

* by its own text, or by that of the method which it overrides, or which it refers to: "those of
  `log`", "as `log`", "see `log`";
* argument by argument, each with an entry under `Args:`; those of `__init__` may be in the class.
  `trainer` and `pl_module` need none: everywhere they are the running trainer and its module.
  The fields of a dataclass or named tuple are the arguments of the class;
* by `Returns:` if it returns something, or by a first line that names it: "Whether ...", "The ...".

All of them have types. Only the text of the package is read: nothing is imported.
"""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "minilightning"
ENTRY = re.compile(r" {4}([*\w]+(?:, [*\w]+)*):(?: |$)")
REFERENCE = re.compile(r"(?:those of|[Aa]s|[Ss]ee) `(?:(\w+)\.)?(\w+)`")
NAMES_A_VALUE = re.compile(r"(The|An?|What|Whether|How|When|Where|Who|One|All|Each|As) ")
SAID_ONCE = {"self", "trainer", "pl_module"}


def entries(text):
    """Return the arguments that a docstring has an entry for."""
    found, inside = set(), False
    for line in text.splitlines():
        if line in ("Args:", "Attributes:"):
            inside = True
        elif line and not line.startswith(" "):
            inside = False
        elif inside and ENTRY.match(line):
            found.update(name.lstrip("*") for name in ENTRY.match(line).group(1).split(", "))
    return found


class Module:
    """What one file defines: {class: its node}, {class or None: {name: function}}."""

    def __init__(self, path):
        self.name, self.tree = path.stem, ast.parse(path.read_text("utf-8"))
        self.lines = path.read_text("utf-8").splitlines()
        self.classes = {node.name: node for node in self.tree.body
                        if isinstance(node, ast.ClassDef)}
        self.functions = {None: functions_in(self.tree)}
        for name, node in self.classes.items():
            self.functions[name] = functions_in(node)


def functions_in(node):
    """Return {name: function} of a module or class; of a property with a setter, the first."""
    found = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            found.setdefault(each.name, each)
    return found


def fields_of(node):
    """Return the names of the fields that a dataclass or named tuple has."""
    decorators = [getattr(each, "func", each) for each in node.decorator_list]
    makers = {getattr(each, "id", "") for each in decorators + node.bases}
    if not makers & {"dataclass", "NamedTuple"}:
        return []
    return [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)
            and not each.target.id.startswith("_")
            and "ClassVar" not in ast.dump(each.annotation)]


class Package:
    """All modules of a folder, and who is whose base."""

    def __init__(self, folder):
        self.modules = [Module(path) for path in sorted(folder.glob("*.py"))]
        self.owners = {name: module for module in self.modules for name in module.classes}

    def bases(self, name):
        """Return the classes of the package that a class inherits from, the nearest first."""
        found = []
        for base in self.owners[name].classes[name].bases if name in self.owners else ():
            base = getattr(base, "id", getattr(base, "attr", ""))
            found += [base] + self.bases(base) if base in self.owners else []
        return found

    def texts(self, module, owner, name):
        """Return the docstrings that speak of a function: its own, and those it rests on."""
        function = module.functions[owner][name]
        texts = [ast.get_docstring(function) or ""]
        for cls, other in re.findall(REFERENCE, texts[0]):
            place = (self.owners[cls], cls) if cls in self.owners else (module, owner)
            if other in place[0].functions[place[1]] and (place[1], other) != (owner, name):
                texts += self.texts(place[0], place[1], other)
        if name == "__init__":
            texts.append(ast.get_docstring(module.classes[owner]) or "")
        for base in self.bases(owner) if owner else ():
            its = self.owners[base]
            if name in its.functions[base]:
                texts.append(ast.get_docstring(its.functions[base][name]) or "")
                if name == "__init__":
                    texts.append(ast.get_docstring(its.classes[base]) or "")
        return [text for text in texts if text]

    def complaints(self):
        """Yield a line for all that is missing."""
        for module in self.modules:
            if not ast.get_docstring(module.tree):
                yield "%s.py has no docstring" % module.name
            for name, node in module.classes.items():
                if not name.startswith("_") and not ast.get_docstring(node):
                    yield "%s.%s has no docstring" % (module.name, name)
                elif not name.startswith("_"):
                    yield from self.unsaid(
                        "%s.%s" % (module.name, name), fields_of(node), [ast.get_docstring(node)])
            for owner, functions in module.functions.items():
                if owner is None or not owner.startswith("_"):
                    for name in functions:
                        if name == "__init__" or not name.startswith("_"):
                            yield from self.missing(module, owner, name)

    def missing(self, module, owner, name):
        """Yield what a function does not say."""
        function, texts = module.functions[owner][name], self.texts(module, owner, name)
        where = ".".join(filter(None, (module.name, owner, name)))
        kinds = [getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list]
        given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        given += [each for each in (function.args.vararg, function.args.kwarg) if each]
        if owner and "staticmethod" not in kinds:
            given = given[1:]
        untyped = [each.arg for each in given if each.annotation is None]
        if untyped or (function.returns is None and name != "__init__"):
            yield "%s has no type for %s" % (where, ", ".join(untyped) or "what it returns")
        if not texts:
            if given or name != "__init__":
                yield "%s has no docstring" % where
            return
        said = set(SAID_ONCE)
        if any(self.owners[base].functions[base][name].args.vararg
               for base in (self.bases(owner) if owner else ())
               if name in self.owners[base].functions[base]):
            said |= {each.arg for each in given}  # the base says what its *args are
        yield from self.unsaid(where, [each.arg for each in given if each.arg not in said], texts)
        returns = function.returns is not None and ast.dump(function.returns) not in NOTHING
        returns = returns and "contextmanager" not in kinds
        if returns and not any("property" in each for each in kinds):
            if not any("\nReturns:\n" in text or NAMES_A_VALUE.match(text) for text in texts):
                yield "%s does not say what it returns" % where


    @staticmethod
    def unsaid(where, names, texts):
        """Yield one line for the names of which no text says what they are, if there are any."""
        said = {name for text in texts for name in entries(text)}
        unsaid = [name for name in names if name not in said]
        if unsaid:
            yield "%s does not say what `%s` is" % (where, "`, `".join(unsaid))


NOTHING = [ast.dump(ast.parse(text, mode="eval").body) for text in ("None", "NoReturn")]


def test_all_that_is_public_is_documented_and_typed():
    complaints = list(Package(PACKAGE).complaints())
    assert not complaints, "\n".join(["%d names:" % len(complaints)] + complaints)


def test_what_is_exported_is_documented():
    """What is in an `__all__` and neither a class nor a function has a comment on its line."""
    package = Package(PACKAGE)
    known = set(package.owners) | {module.name for module in package.modules}
    for module in package.modules:
        known |= set(module.functions[None])
    exported = 0
    for module in package.modules:
        lines = [line for line in module.lines if re.match(r"\w+(: [^=]+)? = ", line)]
        commented = {re.match(r"\w+", line).group() for line in lines if "  # " in line}
        renamed = re.findall(r"import .*?\b\w+ as (\w+)|, \w+ as (\w+)", "\n".join(module.lines))
        commented |= {name for pair in renamed for name in pair if name}
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                for name in ast.literal_eval(node.value):
                    exported += 1
                    assert name in known | commented, "%s.%s" % (module.name, name)
    assert exported > 50


FAULTS = {
    'def f() -> None: pass': "m.f has no docstring",
    'class C:\n    x = 1': "m.C has no docstring",
    'class C:\n    "Text."\n    def f(self) -> None: pass': "m.C.f has no docstring",
    'def f(a: int) -> None:\n    "Text."': "m.f does not say what `a` is",
    'def f(*a: int, **b: int) -> None:\n    "Text."': "m.f does not say what `a`, `b` is",
    'def f(a) -> None:\n    """Text.\n\n    Args:\n        a: it.\n    """':
        "m.f has no type for a",
    'def f():\n    "Text."': "m.f has no type for what it returns",
    'def f() -> int:\n    "Count."': "m.f does not say what it returns",
    'class C(NamedTuple):\n    "Text."\n    a: int': "m.C does not say what `a` is",
    '@dataclass(slots=True)\nclass C:\n    "Text."\n    a: int': "m.C does not say what `a` is",
    'class C:\n    "Text."\n    def __init__(self, a: int) -> None: pass':
        "m.C.__init__ does not say what `a` is",
}
FINE = [
    'def f(a: int, *b: int) -> None:\n    """Text.\n\n    Args:\n        a, b: it.\n    """',
    'def f() -> int:\n    "The number."',
    'def f() -> int:\n    """Count.\n\n    Returns:\n        It.\n    """',
    '@dataclass\nclass C:\n    """Text.\n\n    Args:\n        a: it.\n    """\n    a: int',
    'def _f(a):\n    return a',
    'class C:\n    """Text.\n\n    Args:\n        a: it.\n    """\n'
    '    def __init__(self, a: int) -> None: pass',
    'class B:\n    "Text."\n    def f(self, a: int) -> None:\n        """Text.\n\n'
    '        Args:\n            a: it.\n        """\n'
    'class C(B):\n    "Text."\n    def f(self, a: int) -> None: pass',
    'def f(trainer: int) -> None:\n    "Text."',
    'def f(a: int) -> None:\n    "As `g`."\n'
    'def g(a: int) -> None:\n    """Text.\n\n    Args:\n        a: it.\n    """',
]


@pytest.mark.parametrize("text", [*FAULTS, *FINE])
def test_what_is_missing_is_noticed(tmp_path, text):
    (tmp_path / "m.py").write_text('"""Text."""\n' + text + "\n")
    assert list(Package(tmp_path).complaints()) == ([FAULTS[text]] if text in FAULTS else [])
