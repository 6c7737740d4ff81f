"""Python functions that the lake knows by module path.

Spark knows a Python function in one session only. The lake keeps `package.module:function`, and every session that
compiles or runs a definition gets the functions it calls (`Functions.register`).

The code is taken from the module's source, which is read once: what is hashed is what runs. The module is executed
under a name of its own, so an edited file gives another version in the same process without touching what the program
itself imported; and it is pickled by value, because the workers of an executor keep the modules they have imported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.model import LakeFunction
from spark_trickle.spark.analyze import spark_error
from spark_trickle.spark.names import quote
from spark_trickle.sql.mentions import called
from spark_trickle.sql.parse import parse_query
from spark_trickle.sql.resolve import function_name

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _Code:
    spec: ModuleSpec
    source: str

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()


class Functions:
    """The lake's functions: what they are now, and in which sessions they are registered. Safe for several threads."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._modules: dict[str, tuple[str, types.ModuleType]] = {}  # path of the module -> fingerprint, module
        self._registered: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()  # name -> version

    def known(self) -> dict[str, LakeFunction]:
        """All functions with the fingerprint of their code as it is now; None where there is none."""
        return {f.name: _current(f) for f in self._store.functions()}

    def changed(self, used: Collection[tuple[str, str]]) -> bool:
        """Whether the code of functions, given by name and version, is another one now."""
        if not used:
            return False
        known = self.known()
        return any(name not in known or known[name].version != version for name, version in used)

    def register(self, session: SparkSession, text: str) -> dict[str, LakeFunction]:
        """Give a session the functions that a text calls. Returns them, with the fingerprints that it has got."""
        with self._lock:
            known = {f.name: f for f in self._store.functions()}
            mine = self._registered.get(session, {})
            for name in [n for n in mine if n not in known]:
                session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quote(name)}")
                del mine[name]
            wanted = [known[n] for n in sorted(called(text) & known.keys())] if known else []
            found: dict[str, LakeFunction] = {}
            for function in wanted:
                call, current = self._load(function)
                if mine.get(current.name) != current.version:
                    _register(session, current, call)
                    mine[current.name] = current.version
                    self._registered[session] = mine
                found[current.name] = current
            return found

    def create(self, spark: SparkSession, name: str, path: str, returns: str, *, deterministic: bool) -> LakeFunction:
        """Check a function and keep it."""
        function = LakeFunction(_checked_name(spark, name), path, returns.strip(), deterministic)
        with self._lock:
            importlib.invalidate_caches()
            try:
                call, function = self._load(function)
            except TrickleError as error:
                raise TrickleError("INVALID_FUNCTION", error.message, hint=error.hint) from error
            self._prove(function, call)
            _try(spark, function, call)
        with self._store.write() as tx:
            tx.add_function(function)
        return function

    def drop(self, name: str) -> None:
        with self._store.write() as tx:
            tx.drop_function(name.lower())

    def _load(self, function: LakeFunction) -> tuple[Callable[..., Any], LakeFunction]:
        module_name, attribute = _parts(function.path)
        code = _code(function.path)
        loaded = self._modules.get(module_name)
        if loaded is None or loaded[0] != code.fingerprint:
            loaded = self._modules[module_name] = (code.fingerprint, _execute(function.path, code))
        module = loaded[1]
        call = getattr(module, attribute, None)
        if call is None:
            there = ", ".join(n for n, v in vars(module).items() if _plain(v, module)) or "none"
            raise _unavailable(function.path, f"{module_name} has no {attribute}; its functions are: {there}")
        if not _plain(call, module):
            raise TrickleError("INVALID_FUNCTION", f"{function.path} {_wrong(call, module)}")
        return call, replace(function, fingerprint=code.fingerprint)

    def _prove(self, function: LakeFunction, call: Callable[..., Any]) -> None:
        """An executor, which does not have the module under our name for it, must be able to make the function."""
        from pyspark import cloudpickle

        name = call.__module__
        module = sys.modules.pop(name)
        try:
            cloudpickle.loads(cloudpickle.dumps(call))
        except Exception as error:
            raise TrickleError(
                "INVALID_FUNCTION",
                f"{function.path} cannot be sent to executors: {_first_line(error).replace(name, name.split('@')[0])}",
                hint="What the function uses of its module must be plain functions, classes and values.",
            ) from error
        finally:
            sys.modules[name] = module


# -- code --------------------------------------------------------------------------------------------------------------


def _parts(path: str) -> tuple[str, str]:
    module, _, attribute = path.partition(":")
    if not attribute.isidentifier() or not all(p.isidentifier() for p in module.split(".")) or module == "__main__":
        raise TrickleError("INVALID_FUNCTION", f"{path!r} is not a path of a function", hint="package.module:function")
    return module, attribute


def _code(path: str) -> _Code:
    """The source of a module as it is now; only the packages around it are imported."""
    module, _ = _parts(path)
    try:
        spec = importlib.util.find_spec(module)
    except Exception as error:  # a package around it runs code of its own
        raise _unavailable(path, _first_line(error)) from error
    if spec is None:
        raise _unavailable(path, f"there is no module {module}")
    get_source = getattr(spec.loader, "get_source", None)
    try:
        source = None if get_source is None else get_source(module)
    except Exception as error:
        raise _unavailable(path, _first_line(error)) from error
    if source is None:
        raise TrickleError(
            "INVALID_FUNCTION",
            f"{path}: {module} has no Python source, which tells one version of a function from another",
            hint="Call it from a function in a module of your own.",
        )
    return _Code(spec, source)


def _execute(path: str, code: _Code) -> types.ModuleType:
    from pyspark import cloudpickle

    name = f"{code.spec.name}@{code.fingerprint[:12]}"
    module = types.ModuleType(name)
    module.__spec__, module.__package__, module.__file__ = code.spec, code.spec.parent, code.spec.origin
    if code.spec.submodule_search_locations is not None:
        module.__path__ = list(code.spec.submodule_search_locations)
    sys.modules[name] = module  # classes look their module up while they are made
    try:
        exec(compile(code.source, code.spec.origin or name, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        del sys.modules[name]
        raise _unavailable(path, f"{type(error).__name__}: {_first_line(error)}") from error
    cloudpickle.register_pickle_by_value(module)
    return module


def _current(function: LakeFunction) -> LakeFunction:
    try:
        return replace(function, fingerprint=_code(function.path).fingerprint)
    except TrickleError:
        return function


def _plain(value: Any, module: types.ModuleType) -> bool:
    return isinstance(value, types.FunctionType) and _wrong(value, module) is None


def _wrong(value: Any, module: types.ModuleType) -> str | None:
    """Why something cannot be a function of the lake."""
    if hasattr(value, "evalType"):
        return "is a Spark UDF already: name the Python function in it, without the decorator"
    if not isinstance(value, types.FunctionType):
        return f"is not a plain Python function but {type(value).__name__}"
    if value.__module__ != module.__name__:
        return f"is defined in {value.__module__}: a change there would not be seen; name it there"
    if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        return "does not return a value but a coroutine or a generator"
    return None


def _unavailable(path: str, why: str) -> TrickleError:
    return TrickleError("FUNCTION_UNAVAILABLE", f"{path} cannot be loaded: {why}")


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


# -- Spark -------------------------------------------------------------------------------------------------------------


def _register(session: SparkSession, function: LakeFunction, call: Callable[..., Any]) -> None:
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    # Not udf(), which looks at type hints and may make a vectorized function, or an aggregate, of it.
    kind = PythonEvalType.SQL_BATCHED_UDF
    made = UserDefinedFunction(call, function.returns, evalType=kind, deterministic=function.deterministic)
    session.udf.register(function.name, made)


def _call_of(name: str) -> Iterable[Any]:
    try:
        return parse_query(f"SELECT {name}(1)").walk()
    except TrickleError:
        return ()


def _checked_name(spark: SparkSession, name: str) -> str:
    """A name of one part, in lower case, that Spark does not use itself."""
    lower = name.lower()
    if not name.isascii() or not name.isidentifier() or len(name) > 255:
        raise TrickleError(
            "INVALID_FUNCTION", f"{name[:80]!r} is not a valid function name: use letters, digits and underscores"
        )
    if name.lower() not in map(function_name, _call_of(name)):
        raise TrickleError("INVALID_FUNCTION", f"{name}(…) is not a plain call in SQL", hint="Choose another name.")
    jvm: Any = spark._jvm
    found = spark._jsparkSession.sessionState().functionRegistry()
    found = found.lookupFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(lower))
    if found.isDefined() and found.get().getSource() == "built-in":
        raise TrickleError("INVALID_FUNCTION", f"{lower} is a function of Spark", hint="Choose another name.")
    return lower


def _try(spark: SparkSession, function: LakeFunction, call: Callable[..., Any]) -> None:
    """Register it in a session that nobody uses, and let Spark analyze a call."""
    from pyspark.errors import ParseException

    scratch = spark.newSession()
    try:
        _register(scratch, function, call)
    except ParseException as error:
        raise TrickleError(
            "INVALID_FUNCTION",
            f"{function.returns!r} is not a Spark type",
            hint="Write it as in a CREATE TABLE: bigint, decimal(10,2), array<string>.",
        ) from error
    except Exception as error:
        raise TrickleError("INVALID_FUNCTION", f"{function.path}: {_first_line(error)}") from error
    try:
        shown = scratch.sql(f"SELECT {function.name}(NULL)").columns
    except Exception as error:
        message = f"{function.name} cannot be called: {spark_error(error).message}"
        raise TrickleError("INVALID_FUNCTION", message, hint="Choose another name.") from error
    if shown != [f"{function.name}(NULL)"]:
        raise TrickleError(
            "INVALID_FUNCTION", f"{function.name}(NULL) means {shown[0]} to Spark", hint="Choose another name."
        )
