"""Commands as functions of what they work with; options that many share stand once, where that is made."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import typer

from ctl.options import AsJson
from ctl.output import Answer, Shortfall

F = TypeVar("F", bound=Callable[..., Any])


class Made(NamedTuple):
    """Marks a command's parameter that is no option: a function makes it of options, its own parameters.

    A context manager that it returns is held for as long as the command runs.
    """

    by: Callable[..., Any]


class Commands(typer.Typer):
    """A group of commands. One that returns an `Answer` has --json, also one that returns them one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(no_args_is_help=True, **settings)

    def command(self, *arguments: Any, **settings: Any) -> Callable[[F], F]:
        """Register a function, and return it as it was."""
        register = super().command(*arguments, **settings)

        def add(function: F) -> F:
            register(with_shared_options(function))
            return function

        return add


def _named_in(hint: Any) -> Iterator[Any]:
    yield hint
    for each in get_args(hint):
        yield from _named_in(each)


def with_shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with options in place of what is `Made` of them, and its answer printed."""
    hints = get_type_hints(function, include_extras=True)
    own: list[Parameter] = []
    shared: dict[str, Parameter] = {}
    makers: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    returned = hints.get("return")
    if Answer in _named_in(returned):
        shared["as_json"] = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    for name, parameter in signature(function).parameters.items():
        marks = [mark for mark in getattr(hints[name], "__metadata__", ()) if isinstance(mark, Made)]
        if not marks:
            own.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))
            continue
        options = signature(marks[0].by).parameters
        makers[name] = (marks[0].by, list(options))
        shared |= {each: option.replace(kind=Parameter.KEYWORD_ONLY) for each, option in options.items()}

    @wraps(function)
    def command(**given: Any) -> Any:
        with ExitStack() as stack:
            working = {each.name: given[each.name] for each in own}
            for name, (make, options) in makers.items():
                made = make(**{option: given[option] for option in options})
                working[name] = stack.enter_context(made) if hasattr(made, "__enter__") else made
            try:
                found = function(**working)
                if isinstance(found, Generator):
                    answers = stack.enter_context(closing(found))
                    return max((each.print_next(given["as_json"]) for each in answers), default=0)
            except Shortfall as fault:
                fault.answer.print(given["as_json"])
                raise
        return found.print(given["as_json"]) if isinstance(found, Answer) else found

    all_options = {each.name: each for each in own} | shared
    vars(command)["__signature__"] = Signature(list(all_options.values()))
    command.__annotations__ = {name: option.annotation for name, option in all_options.items()}
    return command
