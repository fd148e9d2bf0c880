"""The one table of bmcompiler's functions, from which Python and C have them.

Each function is a Python function whose parameters have the vendor's names and order, marked with `vendor`.
What several functions have in common is a record, a dataclass that stands for one parameter after the other
(`vendor_spread`): its fields are what the parameters mean, `Called` has the vendor's names. Annotations say
what Python's types leave open: how many numbers an array has. From them come the check of every call here,
the C prototypes and what the C library sends (c_source.py), the reading of that (server.py), and the flat
signatures for type checkers (stub.py).
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from firmware_sim.errors import TpulayerError, UsageError

P = ParamSpec("P")
R = TypeVar("R")

# ---- annotations ----


@dataclass(frozen=True)
class Ints:
    """const int *: as many as the parameter `count` says."""

    count: str


@dataclass(frozen=True)
class Texts:
    """const char *const *: `count` of them."""

    count: str


@dataclass(frozen=True)
class Shapes:
    """const int *const *: `count` shapes, of `dims[i]` extents each.

    made: of the outputs of the one layer that the call adds. `dims` may be NULL without them then: C reads as
    many extents as the layer says that its outputs have, and sends them after the call.
    """

    count: str
    dims: str
    made: bool = False


class Floats:
    """const float *: a product of terms, divided by `per`; one number when `single` is not 0.

    NULL, and never read, when `when` is 0 (in C too).

    A term is a parameter, `name[i]` of an array, `prod(name)` of all its numbers, or `span(name, axis,
    number)`: the product of `number` extents of a shape from `axis` on (-1: all of the rest).
    """

    def __init__(self, *terms: str, per: str = "", when: str = "", single: str = "") -> None:
        self.terms = terms
        self.per = per
        self.when = when
        self.single = single


@dataclass(frozen=True)
class Bytes:
    """const void *: `size` bytes."""

    size: str


@dataclass(frozen=True)
class Arrays:
    """float **: arrays of the tensors that the parameter `names` names, in their own types and sizes."""

    names: str


@dataclass(frozen=True)
class Unread:
    """A pointer of the vendor's that nothing reads, of this C type; always None."""

    c_type: str


@dataclass(frozen=True)
class Result:
    """void ** and unsigned int *: in C the result goes there, in memory from malloc."""

    data: str
    size: str


Annotation = Ints | Texts | Shapes | Floats | Bytes | Arrays | Unread | Result


# ---- records: what several functions have in common ----


@dataclass(frozen=True)
class Called:
    """What the vendor calls the parameter that a record's field stands for.

    "{}" in it, and in the names that the field's annotation has, is the tag of the record (`Tag`).
    """

    name: str


@dataclass(frozen=True)
class Tag:
    """Tells records of one kind apart: "A" in input_A_name."""

    text: str


@dataclass(frozen=True)
class Input:
    """A tensor that a layer reads."""

    shape: Annotated[Sequence[int], Ints("input_shape_dim"), Called("input_shape")]
    dims: Annotated[int, Called("input_shape_dim")]
    name: Annotated[str, Called("input_name")]


@dataclass(frozen=True)
class Output:
    """The tensor that a layer makes."""

    shape: Annotated[Sequence[int], Ints("output_shape_dim"), Called("output_shape")]
    dims: Annotated[int, Called("output_shape_dim")]
    name: Annotated[str, Called("output_name")]


@dataclass(frozen=True)
class Inputs:
    """Tensors that a layer reads, `number` of them."""

    number: Annotated[int, Called("input_num")]
    shapes: Annotated[Sequence[Sequence[int]], Shapes("input_num", "input_shape_dim"), Called("input_shape")]
    dims: Annotated[Sequence[int], Ints("input_num"), Called("input_shape_dim")]
    names: Annotated[Sequence[str], Texts("input_num"), Called("input_name")]


@dataclass(frozen=True)
class Outputs:
    """Tensors that a layer, or several, make, `number` of them."""

    number: Annotated[int, Called("output_num")]
    shapes: Annotated[
        Sequence[Sequence[int]], Shapes("output_num", "output_shape_dim"), Called("output_shape")
    ]
    dims: Annotated[Sequence[int], Ints("output_num"), Called("output_shape_dim")]
    names: Annotated[Sequence[str], Texts("output_num"), Called("output_name")]


# ---- the table ----

HANDLE, INT, FLOAT, TEXT, BOOL = "handle", "int", "float", "text", "bool"


@dataclass(frozen=True)
class Parameter:
    """kind: HANDLE, INT, FLOAT, TEXT, BOOL, or the annotation of an array."""

    name: str
    kind: str | Annotation
    optional: bool
    default: int | float | None


@dataclass(frozen=True)
class Function:
    """One function of the table."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str | Result  # "void", HANDLE, INT
    summary: str
    call: Callable[..., Any]
    ends: bool  # p_bmcpl is gone after it

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name, which must exist."""
        return next(p for p in self.parameters if p.name == name)


FUNCTIONS: dict[str, Function] = {}


def vendor(function: Callable[P, R]) -> Callable[P, R]:
    """Put a function into the table; calls check their arguments first.

    The function receives tuples of exactly the numbers that were counted, and float32 arrays [n] or None.
    """
    return _put(function, function.__name__, inspect.getdoc(function) or "")


def vendor_spread(function: Callable[..., R]) -> Callable[..., R]:
    """`vendor` for a function with records; callers give their fields one after the other."""
    return _put(function, function.__name__, inspect.getdoc(function) or "")


def vendor_last(function: Callable[P, R]) -> Callable[P, R]:
    """`vendor` for a function after which p_bmcpl is gone."""
    return _put(function, function.__name__, inspect.getdoc(function) or "", ends=True)


def same_as(function: Callable[P, R], name: str) -> Callable[P, R]:
    """Put a function of the table into it under another name."""
    return _put(inspect.unwrap(function), name, f"The same as {function.__name__}.")


def _put(function: Callable[P, R], name: str, doc: str, *, ends: bool = False) -> Callable[P, R]:
    hints = get_type_hints(function, include_extras=True)
    parts = [_part(parameter, hints) for parameter in inspect.signature(function).parameters.values()]
    signature = inspect.Signature([p for part in parts for p in part.parameters])

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            checked = _checked(FUNCTIONS[name], bound.arguments)
            return function(**{part.name: part.of(checked) for part in parts})  # type: ignore[call-arg]
        except TpulayerError as error:
            if not error.message.startswith(name):
                error.message = f"{name}: {error.message}"
            raise

    call.__name__, call.__doc__ = name, doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    assert doc, f"{name} has no documentation"
    # Keyword-only parameters are for Python alone.
    parameters = (p for part in parts for p in part.parameters if p.kind is not p.KEYWORD_ONLY)
    table = tuple(_parameter(parameter) for parameter in parameters)
    FUNCTIONS[name] = Function(name, table, _result(hints["return"]), doc, call, ends)
    return call


@dataclass(frozen=True)
class _Part:
    """A parameter of a function here, and those of the vendor's that it stands for.

    fields: of a record, in the order of `parameters`.
    """

    name: str
    parameters: tuple[inspect.Parameter, ...]
    record: Callable[..., Any] | None = None
    fields: tuple[str, ...] = ()

    def of(self, given: Mapping[str, Any]) -> Any:
        """The argument for it."""
        values = [given[parameter.name] for parameter in self.parameters]
        if self.record is None:
            return values[0]
        return self.record(**dict(zip(self.fields, values, strict=True)))


def _part(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> _Part:
    hint = hints[parameter.name]
    plain, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_dataclass(plain):
        return _Part(parameter.name, (parameter.replace(annotation=hint),))
    tag = next((extra.text for extra in extras if isinstance(extra, Tag)), "")
    fields = get_type_hints(plain, include_extras=True)
    made = [_vendors(name, field, tag) for name, field in fields.items()]
    return _Part(parameter.name, tuple(made), cast("Callable[..., Any]", plain), tuple(fields))


def _vendors(field: str, hint: Any, tag: str) -> inspect.Parameter:
    """The vendor's parameter for a record's field."""
    plain, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    name = next((extra.name for extra in extras if isinstance(extra, Called)), field)
    for extra in extras:
        if isinstance(extra, Annotation):
            plain = Annotated[plain, _tagged(extra, tag)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name.format(tag), kind, annotation=plain)


def _tagged(annotation: Annotation, tag: str) -> Annotation:
    if isinstance(annotation, Ints):
        return Ints(annotation.count.format(tag))
    if isinstance(annotation, Floats):
        terms = (term.format(tag) for term in annotation.terms)
        return Floats(*terms, per=annotation.per, when=annotation.when.format(tag), single=annotation.single)
    return annotation


def _parameter(parameter: inspect.Parameter) -> Parameter:
    kind, optional = _kind(parameter.annotation, parameter.name)
    default = None if parameter.default is parameter.empty else parameter.default
    return Parameter(parameter.name, kind, optional, default)


def _result(returned: Any) -> str | Result:
    if get_origin(returned) is Annotated:
        found: Result = get_args(returned)[1]
        return found
    if returned is int:
        return INT
    return "void" if returned is type(None) else HANDLE


def _kind(hint: Any, name: str) -> tuple[str | Annotation, bool]:
    plain, extra = (get_args(hint)[0], get_args(hint)[1]) if get_origin(hint) is Annotated else (hint, None)
    options = get_args(plain) if get_origin(plain) in (Union, types.UnionType) else (plain,)
    optional = type(None) in options
    if extra is not None:
        return extra, optional
    if name == "p_bmcpl":
        return HANDLE, False
    simple = {int: INT, float: FLOAT, str: TEXT, bool: BOOL}
    return next(kind for kind in (simple.get(option) for option in options) if kind), optional


# ---- how many numbers an array has ----

_TERM = re.compile(r"(?P<call>prod|span)\((?P<inside>[^)]*)\)|(?P<name>\w+)(?:\[(?P<index>\d+)\])?")


@dataclass(frozen=True)
class Term:
    """A term of a product: a parameter (index None), an element, prod(name) or span(name, axis, number)."""

    name: str
    index: int | None = None
    call: str = ""
    arguments: tuple[str, ...] = ()


def parse_term(text: str) -> Term:
    """Read one term as the table writes it (see `Floats`)."""
    match = _TERM.fullmatch(text)
    assert match is not None, f"{text!r} is not a term"
    if match["call"]:
        name, *rest = (word.strip() for word in match["inside"].split(","))
        return Term(name, None, match["call"], tuple(rest))
    return Term(match["name"], None if match["index"] is None else int(match["index"]))


def _value(term: Term, given: Mapping[str, Any]) -> int:
    value = given[term.name]
    if term.call == "span":
        shape = value[0] if value and isinstance(value[0], Sequence) else value
        axis, number = (int(given[name]) for name in term.arguments)
        start = axis % len(shape) if shape else 0
        return math.prod(shape[start:] if number < 0 else shape[start : start + number])
    if term.call == "prod":
        return math.prod(value)
    if term.index is None:
        return int(value)
    if term.index >= len(value):
        raise UsageError(f"{term.name} has {len(value)} numbers; number {term.index} is needed")
    return int(value[term.index])


def floats_count(kind: Floats, given: Mapping[str, Any]) -> int:
    """How many numbers an array of floats has, from the other arguments.

    UsageError where that makes no sense.
    """
    if kind.when and not given[kind.when]:
        return 0
    if kind.single and given[kind.single]:
        return 1
    total = math.prod(_value(parse_term(term), given) for term in kind.terms)
    if not kind.per:
        return total
    divisor = int(given[kind.per])
    if divisor < 1:
        raise UsageError(f"{kind.per} is {divisor}")
    return total // divisor


# ---- the check of a call ----


def _checked(spec: Function, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, arrays cut and converted. Errors: UsageError naming the parameter."""
    result = dict(given)
    if spec.parameters[0].kind == HANDLE:
        result[spec.parameters[0].name].check_open()
    for parameter in spec.parameters:
        value, kind = result[parameter.name], parameter.kind
        if isinstance(kind, (Ints, Texts, Shapes)):
            count = int(kind.count) if kind.count.isdigit() else int(result[kind.count])
            if count < 0:
                raise UsageError(f"{kind.count} is {count}")
        if value is None:
            if not parameter.optional:
                raise UsageError(f"{parameter.name} is missing (NULL)")
        elif isinstance(kind, Ints):
            result[parameter.name] = _ints(parameter.name, value, kind.count, count)
        elif isinstance(kind, (Texts, Shapes)):
            _exactly(parameter.name, value, kind.count, count)
            result[parameter.name] = tuple(value)
            if None in result[parameter.name]:
                at = result[parameter.name].index(None)
                raise UsageError(f"{parameter.name}[{at}] is missing (NULL)")
    for parameter in spec.parameters:  # what depends on arrays of the same call
        value, kind = result[parameter.name], parameter.kind
        if isinstance(kind, Shapes) and value is not None and result[kind.dims] is not None:
            _exactly(parameter.name, value, kind.dims, len(result[kind.dims]))
            result[parameter.name] = tuple(
                _ints(f"{parameter.name}[{i}]", shape, f"{kind.dims}[{i}]", dims)
                for i, (shape, dims) in enumerate(zip(value, result[kind.dims], strict=True))
            )
    for parameter in spec.parameters:
        if isinstance(parameter.kind, Floats):
            result[parameter.name] = _floats(parameter, result)
    return result


def _ints(name: str, values: Any, counter: str, count: Any) -> tuple[Any, ...]:
    if count < 0:
        raise UsageError(f"{counter} is {count}")
    if len(values) < count:
        raise UsageError(f"{counter} is {count}, but {name} {list(values)} has only {len(values)} numbers")
    return tuple(v if isinstance(v, str) else int(v) for v in values[:count])


def _exactly(name: str, values: Any, counter: str, count: Any) -> None:
    if len(values) != count:
        raise UsageError(f"{counter} is {count} but {name} has {len(values)} entries")


def _floats(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    import numpy as np

    kind, value = parameter.kind, given[parameter.name]
    assert isinstance(kind, Floats)
    if kind.when and not given[kind.when]:
        return None
    if value is None:
        if kind.when:
            raise UsageError(f"{parameter.name} is missing (NULL), and {kind.when} is {given[kind.when]}")
        return None
    count = floats_count(kind, given)
    array = np.asarray(value, np.float32).reshape(-1)
    if len(array) != count:
        product = " * ".join(kind.terms) + (f" / {kind.per}" if kind.per else "")
        raise UsageError(f"{parameter.name} has {len(array)} numbers, {count} are needed ({product})")
    return array
