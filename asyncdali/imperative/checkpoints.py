"""Checkpoints of dynamic mode: the states of readers and random generators by name, as JSON."""

from __future__ import annotations

import glob
import json
import os
import string
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from ..system.files import replace_file
from .rng import RNG, RNGState
from .spellings import CHECKPOINTS, missing_attribute
from .states import ReaderState, Restorable

VERSION = 2
_OWN = "__op_"

State = RNGState | ReaderState | str


class _StoredState(NamedTuple):
    """A state, and the name of the class it belongs to; None: any."""

    state: State
    kind: str | None


class Checkpoint:
    """States of readers and generators by name.

    One program collects and saves them, and another one (or a later run) loads them and registers the same objects::

        checkpoint = ndd.checkpoint.Checkpoint()
        checkpoint.register(reader, "train")
        checkpoint.register(rng, "augmentation")
        checkpoint.collect()
        checkpoint.save("states/{seq:06d}.json")

    A checkpoint that was loaded gives every object its state when the object is registered. It is not thread-safe.
    """

    def __init__(self) -> None:
        self._objects: dict[str, RNG | Restorable] = {}
        self._states: dict[str, _StoredState] = {}
        self._complete = self._loaded = False

    def __getattr__(self, name: str) -> NoReturn:
        missing_attribute(self, name, CHECKPOINTS)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registered objects."""
        return tuple(self._objects)

    @property
    def is_complete(self) -> bool:
        """Whether the states were collected."""
        return self._complete

    @property
    def is_loaded(self) -> bool:
        """Whether the states come from a text."""
        return self._loaded

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def register(self, op: RNG | Restorable, name: str | None = None) -> str:
        """Add a reader or a generator; returns its name. If there is a state of this name, the object gets it now.

        Args:
            op: the object. A reader that has read nothing is switched to checkpointing.
            name: by default "__op_<n>" with the number of objects so far. An object keeps its name. A name that is taken gets the new
                object, if its class is equal.

        Raises:
            TypeError: another class of object, or one that does not fit the name or its state.
            ValueError: an empty name, or one that begins with "__op_".
            KeyError: the loaded states have no such name.
            RuntimeError: the object has another name; the states were collected, so no name can be added; or the reader has read something
                without checkpointing.
        """
        if not isinstance(op, (RNG, Restorable)):
            raise TypeError(f"a checkpoint has readers and ndd.random.RNG objects, got {type(op).__name__}")
        known = next((key for key, item in self._objects.items() if item is op), None)
        if name is not None:
            _check_name(name)
            if known not in (None, name):
                raise RuntimeError(f"this {type(op).__name__} is registered as {known!r}, so it cannot be {name!r}, too")
        if known is not None:
            return known
        key = f"{_OWN}{len(self._objects)}" if name is None else name
        kind = type(op).__name__
        if key in self._objects:
            present = type(self._objects[key]).__name__
            if present != kind:
                raise TypeError(f"the name {key!r} belongs to an object of class {present}, not {kind}")
        elif self._complete:
            raise RuntimeError(f"the states were collected, so {key!r} cannot be added; call clear() first")
        if self._loaded and key not in self._states:
            raise KeyError(f"the loaded states have no {key!r}; they have {', '.join(self._states) or 'no names'}")
        if isinstance(op, Restorable) and not op.keeps_states and op.is_used:
            raise RuntimeError(f"{key!r} has read something without checkpointing: give enable_checkpointing=True to the constructor")
        stored = None if self._complete else self._states.get(key)
        if stored is not None:
            _check(key, op, stored)
            op.set_state(stored.state)
        if isinstance(op, Restorable):
            op.enable_checkpointing()
        self._objects[key] = op
        return key

    def collect(self) -> None:
        """Take the states of all objects. It may be repeated. RuntimeError if there are states whose objects are not registered."""
        self._refuse_others()
        self._states = {name: _StoredState(item.get_state(), type(item).__name__) for name, item in self._objects.items()}
        self._complete, self._loaded = True, False

    def restore(self) -> None:
        """Give all objects their states. Nothing is changed unless all fit. Without states it does nothing.

        RuntimeError if names of objects and of states differ; other errors as :meth:`register`.
        """
        if not self._states:
            return
        self._refuse_others()
        missing = [name for name in self._objects if name not in self._states]
        if missing:
            raise RuntimeError(f"there are no states for {', '.join(map(repr, missing))}")
        waiting = {name: item for name, item in self._objects.items() if not _has(item, self._states[name].state)}
        for name, item in waiting.items():
            _check(name, item, self._states[name])
        for name, item in waiting.items():
            item.set_state(self._states[name].state)

    def _refuse_others(self) -> None:
        others = [name for name in self._states if name not in self._objects]
        if others:
            raise RuntimeError(f"there are states for {', '.join(map(repr, others))}, but no such objects were registered")

    def get_state(self, name: str) -> State | None:
        """The stored state of an object: an object after :meth:`collect`, a text after loading, None without one. KeyError for other
        names."""
        if name not in self._objects:
            raise KeyError(f"no object is registered as {name!r}; there are {', '.join(self._objects) or 'none'}")
        stored = self._states.get(name)
        return None if stored is None else stored.state

    def set_state(self, name: str, value: State, op_type: type | str | None = None) -> None:
        """Put a state by hand. An object that is registered by this name later gets it at once, others by :meth:`restore`.

        Args:
            name: the name of the object.
            value: the state, or its text.
            op_type: the class that the object must have, or its name; None: any.
        """
        if not isinstance(name, str):
            raise TypeError(f"a name is a string, got {type(name).__name__}")
        if not name:
            raise ValueError("a name cannot be empty")
        if not isinstance(value, (str, RNGState, ReaderState)):
            raise TypeError(f"a state is what get_state() returned, or its text, got {type(value).__name__}")
        if op_type is not None and not isinstance(op_type, (str, type)):
            raise TypeError(f"op_type is a class or its name, got {op_type!r}")
        self._states[name] = _StoredState(value, op_type.__name__ if isinstance(op_type, type) else op_type)

    def clear(self) -> None:
        """Forget all objects and states."""
        self._objects, self._states = {}, {}
        self._complete = self._loaded = False

    # --- texts and files

    def serialize(self) -> str:
        """The states as JSON. RuntimeError if there are none."""
        if not self._states:
            raise RuntimeError("there are no states: call collect() first")
        states = {name: {"state": str(stored.state), "type": stored.kind} for name, stored in self._states.items()}
        return json.dumps({"version": VERSION, "states": states})

    def deserialize(self, text: str | bytes) -> None:
        """Take the states from a text. Objects get them when they are registered, or by :meth:`restore`.

        TypeError for another class, ValueError for another text.
        """
        if not isinstance(text, (str, bytes, bytearray)):
            raise TypeError(f"a checkpoint is a text (what serialize() returned), got {type(text).__name__}")
        self._states = _parsed(text)
        self._complete, self._loaded = False, True

    def save(self, pattern: str | os.PathLike[str]) -> str:
        """Write the states to a new file; returns its path. Directories are made.

        Args:
            pattern: the path, with ``{seq}`` (or a format such as ``{seq:06d}``) once. It becomes the number behind the highest of the
                files that match the pattern, from 0.

        Raises:
            ValueError: a pattern without ``{seq}``, or with other fields.
            RuntimeError: there are no states.
        """
        found, text = _Pattern(pattern), self.serialize()
        path = found.path(max(found.files(), default=-1) + 1)
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        replace_file(path, text.encode())
        return path

    def load(self, pattern: str | os.PathLike[str]) -> str:
        """Read the file with the highest number that matches a pattern of :meth:`save`; returns its path. FileNotFoundError without one."""
        files = _Pattern(pattern).files()
        if not files:
            raise FileNotFoundError(f"no checkpoint matches {os.fspath(pattern)!r}")
        path = files[max(files)]
        with open(path, "rb") as file:
            self.deserialize(file.read())
        return path


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a name is a string, got {type(name).__name__}")
    if not name:
        raise ValueError("a name cannot be empty")
    if name.startswith(_OWN):
        raise ValueError(f"names that begin with {_OWN!r} are those of objects without a name, got {name!r}")


def _has(item: RNG | Restorable, state: State) -> bool:
    """Whether an object is at a state, so that a reader which has started is left alone."""
    return not isinstance(item, RNG) and item.keeps_states and str(item.get_state()) == str(state)


def _check(name: str, item: RNG | Restorable, stored: _StoredState) -> None:
    """TypeError, ValueError, RuntimeError if an object cannot get a state. Nothing is changed."""
    kind = type(item).__name__
    if stored.kind is not None and stored.kind != kind:
        raise TypeError(f"the state {name!r} belongs to an object of class {stored.kind}, not {kind}")
    if isinstance(item, RNG):
        RNG(state=stored.state)
    else:
        item.check_state(stored.state)


def _parsed(text: str | bytes | bytearray) -> dict[str, _StoredState]:
    """The states of a text. ValueError for another text."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this text is not a checkpoint: {error}") from None
    if not isinstance(body, dict) or "version" not in body or "states" not in body:
        raise ValueError('this text is not a checkpoint: it has no "version" and "states"')
    version, states = body["version"], body["states"]
    if type(version) is not int or version != VERSION:
        raise ValueError(f"the checkpoint has version {version!r}; this library reads version {VERSION}")
    if not isinstance(states, dict):
        raise ValueError('the "states" of a checkpoint are an object')
    return {name: _entry(name, entry) for name, entry in states.items()}


def _entry(name: str, entry: Mapping[str, object] | object) -> _StoredState:
    state = entry.get("state") if isinstance(entry, Mapping) else None
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    if not isinstance(state, str) or not (kind is None or isinstance(kind, str)):
        raise ValueError(f'the entry {name!r} of the checkpoint is damaged; expected {{"state": text, "type": name or null}}')
    return _StoredState(state, kind)


class _Pattern:
    """A path with one number."""

    def __init__(self, given: str | os.PathLike[str]):
        if not isinstance(given, (str, os.PathLike)) or not isinstance(os.fspath(given), str):
            raise TypeError(f"a pattern is a str or a Path, got {type(given).__name__}")
        text = os.fspath(given)
        wrong = f"the pattern of a checkpoint has {{seq}} once, as in 'states/{{seq:06d}}.json', and no other fields; got {text!r}"
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"{wrong}: {error}") from None
        fields = [name for _, name, _, _ in parts if name is not None]
        if fields != ["seq"]:
            raise ValueError(wrong)
        at = next(k for k, (_, name, _, _) in enumerate(parts) if name is not None)
        _, _, self._format, conversion = parts[at]
        self._before = "".join(part[0] for part in parts[: at + 1])
        self._after = "".join(part[0] for part in parts[at + 1 :])
        try:
            self._base = {"x": 16, "X": 16, "o": 8, "b": 2}.get((self._format or "d")[-1], 10)
            if conversion or int(format(12, self._format or ""), self._base) != 12:
                raise ValueError("the number must be written as an integer")
        except ValueError as error:
            raise ValueError(f"{wrong}: {error}") from None

    def path(self, number: int) -> str:
        """The path with a number."""
        return f"{self._before}{format(number, self._format or '')}{self._after}"

    def files(self) -> dict[int, str]:
        """The paths that exist, by number."""
        found = {}
        for path in glob.glob(f"{glob.escape(self._before)}*{glob.escape(self._after)}"):
            text = path[len(self._before) : len(path) - len(self._after)]
            try:
                number = int(text, self._base)
            except ValueError:
                continue
            if number >= 0 and self.path(number) == path:
                found[number] = path
        return found
