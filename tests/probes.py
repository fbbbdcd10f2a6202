"""Library calls that are reached after a study was charged, found by running.

Importing this module, before anything of `dpbo_core`, compiles that package with a probe at every call. Between the
end of `reserve` and the recording of the release the probes note what is reached, or make one call raise. Rewriting
the syntax tree sees every kind of callable, array functions too, the same on every Python.
"""

import ast
import contextlib
import functools
import importlib.abc
import importlib.machinery
import sys
import types

PACKAGES = ("dpbo_core", "dpbo.features")


class Panic(BaseException):
    """What an extension module raises when it gives up."""


class Planted(Exception):
    """What a library raises."""


SECRET = "record 17 has income 123456789"
KINDS = (Planted, Panic, KeyboardInterrupt, SystemExit)


class Watch:
    """What is being watched, and what was seen."""

    def __init__(self):
        self.active, self.target, self.kind, self.fired = False, None, Planted, False
        self.calls = set()

    def call(self, site, callee):
        if self.active and not self.fired and foreign(callee):
            self.calls.add(site)
            if site == self.target:
                self.fired = True
                raise self.kind(SECRET)
        return callee


WATCH = Watch()


def foreign(callee):
    """Whether it is neither Python's own builtins nor ours."""
    while isinstance(callee, functools.partial):
        callee = callee.func
    callee = getattr(callee, "__wrapped__", callee) if not isinstance(callee, type) else callee
    owner = getattr(callee, "__self__", None)
    if isinstance(owner, types.ModuleType | None):
        name = getattr(callee, "__module__", None) or type(callee).__module__
    elif isinstance(callee, types.MethodType):
        name = getattr(callee.__func__, "__module__", None) or type(owner).__module__
    else:
        name = (owner if isinstance(owner, type) else type(owner)).__module__
    if str(name).startswith(PACKAGES) or str(name).endswith("_parts"):
        return False
    return str(name).partition(".")[0] not in {"builtins", "__main__", "probes", "failure_worlds", "typing"}


class Rewriter(ast.NodeTransformer):
    """A probe around every callee."""

    def __init__(self, module):
        self.path, self.module = [], module

    @property
    def place(self):
        return f"{self.module}:{'.'.join(self.path)}"

    def _scope(self, node):
        self.path.append(node.name)
        node = self.generic_visit(node)
        self.path.pop()
        return node

    visit_FunctionDef = visit_ClassDef = _scope  # noqa: N815

    def visit_Call(self, node):
        said = written(node.func)
        said = said if len(said) <= 60 else said[:57] + "..."
        node = self.generic_visit(node)
        if self.path and said != "super":
            node.func = probe(node, "call", ast.Constant(f"{self.place}:{said}"), node.func)
        return node


def probe(place, verb, word, *callee):
    """The syntax of `__watch__.verb(word, callee)`, which stands where `place` does."""
    method = ast.Attribute(ast.Name("__watch__", ast.Load()), verb, ast.Load())
    made = ast.Call(method, [word, *callee], [])
    for new in (made, method, method.value, word):
        ast.copy_location(new, place)
    return made


def written(node):
    """As `ast.unparse` writes it, which takes long, and most are a name or a name's attribute."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{written(node.value)}.{node.attr}"
    return ast.unparse(node)


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        tree = Rewriter(fullname.removeprefix("dpbo_core.").removeprefix("dpbo.")).visit(tree)
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module):
        module.__dict__["__watch__"] = WATCH
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if not name.startswith(PACKAGES):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


assert not set(PACKAGES) & set(sys.modules)
sys.meta_path.insert(0, Finder())


def forget():
    """Empty what is remembered between studies, so that every one runs all its code."""
    for module in [m for name, m in list(sys.modules.items()) if name.startswith(PACKAGES)]:
        for value in list(vars(module).values()):
            clear = getattr(value, "cache_clear", None)
            if callable(clear):
                clear()


@contextlib.contextmanager
def watching(target=None, kind=Planted):
    """From the end of each `reserve` in the block until its release is recorded.

    Of a query that is asked in steps, until a feature's `until_read` says so; from then on each draw alone.
    """
    from of_features import parts

    from dpbo_core.ledger.ledger import PrivacyLedger
    from dpbo_core.ledger.reservation import Reservation
    from dpbo_core.study.query import Charged

    WATCH.target, WATCH.kind, WATCH.fired, WATCH.calls = target, kind, False, set()
    plain, concluded, drawn = PrivacyLedger.reserve, Reservation.conclude, Charged.draw
    resting = [part(WATCH) for part in parts("until_read")]
    asked = [(owner, name, getattr(owner, name)) for owner, name, _ in resting]

    def reserve(self, *args, **kwargs):
        made = plain(self, *args, **kwargs)
        WATCH.active = True
        return made

    def conclude(self, release, **more):
        final = concluded(self, release, **more)
        WATCH.active = False
        return final

    def draw(self, *args, **kwargs):
        before, WATCH.active = WATCH.active, True
        made = drawn(self, *args, **kwargs)
        WATCH.active = before
        return made

    PrivacyLedger.reserve, Reservation.conclude = reserve, conclude
    Charged.draw = draw
    for owner, name, new in resting:
        setattr(owner, name, new)
    forget()
    try:
        yield WATCH
    finally:
        WATCH.active = False
        PrivacyLedger.reserve, Reservation.conclude = plain, concluded
        Charged.draw = drawn
        for owner, name, old in asked:
            setattr(owner, name, old)
