"""A tree of files on this machine: listed and opened without a lock, and no link is followed out of it."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from replica_audit.formats.files.trees import Entry, Problem, Tree

_LEADS_OUT = "a link that leads out of the snapshot, which is not followed: copy what it leads to"


def last_change(path: str) -> str | None:
    """Inode and times of a file, as a text that changes with it; None where it cannot be looked at."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return describe_change(state)


def describe_change(state: os.stat_result) -> str:
    """Inode, and times in ns of the last change of a file's content and of the inode."""
    return f"{state.st_ino} {state.st_mtime_ns} {state.st_ctime_ns}"


def list_tree(root: str) -> Tree:
    """Every directory once, at its own place: of a link to another directory it is only told where that is read."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    top = os.path.realpath(root)
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                children = list(found)
        except OSError as error:
            problems.append(Problem(_shown(folder), f"the directory could not be listed: {error.strerror}"))
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            entry, problem = _look_at(child, path, top)
            if problem is not None:
                problems.append(problem)
            if entry is not None:
                entries.append(entry)
                if entry.is_dir:
                    pending.append(path)
    return Tree(tuple(sorted(entries)), tuple(sorted(problems, key=lambda problem: problem.path)))


def list_directory(root: str, folder: str) -> tuple[Entry, ...]:
    """What is directly below `folder`, sorted by path; nothing where there is no such directory. Raises OSError."""
    try:
        with os.scandir(os.path.join(root, folder)) as found:
            children = list(found)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OSError(f"{folder}: the directory could not be listed: {error.strerror}") from None
    top = os.path.realpath(root)
    looked_at = (_look_at(child, f"{folder}/{child.name}" if folder else child.name, top) for child in children)
    return tuple(sorted(entry for entry, _ in looked_at if entry is not None))


def open_file(root: str, path: str) -> BinaryIO:
    """An ordinary file, opened without waiting; raises OSError in words that name no place outside `root`."""
    place = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            number = os.open(place, flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            target = os.path.realpath(place)
            if not _is_below(target, os.path.realpath(root)):
                raise OSError(f"{path}: {_LEADS_OUT}") from None
            number = os.open(target, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno is None:
            raise
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(f"{path}: neither a file nor a directory") from None
        raise OSError(f"{path}: could not be opened: {error.strerror}") from None
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"{path}: {_describe_special(mode)}")
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _look_at(child: os.DirEntry, path: str, top: str) -> tuple[Entry | None, Problem | None]:
    """One name of a directory: what it is, and what is wrong with it.

    What is there and cannot be read is an entry all the same: whoever needs it learns why from opening it.
    """
    if _shown(path) != path:
        return None, Problem(_shown(path), "the name is not UTF-8")
    try:
        if child.is_symlink():
            target = os.path.realpath(child.path)
            if not _is_below(target, top):
                return Entry(path, 0, False), Problem(path, _LEADS_OUT)
            if os.path.isdir(target):
                if _is_below(os.path.realpath(os.path.dirname(child.path)), target):
                    return None, Problem(path, "a link that leads back to a directory above it")
                there = os.path.relpath(target, top).replace(os.sep, "/")
                return None, Problem(path, f"a link to {_shown(there)}, which is read there", is_told_elsewhere=True)
        state = child.stat()
    except OSError as error:
        return Entry(path, 0, False), Problem(path, f"could not be looked at: {error.strerror}")
    if stat.S_ISDIR(state.st_mode):
        return Entry(path, 0, True), None
    if stat.S_ISREG(state.st_mode):
        return Entry(path, state.st_size, False), None
    return Entry(path, 0, False), Problem(path, _describe_special(state.st_mode))


def _describe_special(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory where a file is expected",
        stat.S_IFIFO: "a named pipe, not a file",
        stat.S_IFSOCK: "a socket, not a file",
        stat.S_IFCHR: "a device, not a file",
        stat.S_IFBLK: "a device, not a file",
    }
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a directory")


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
