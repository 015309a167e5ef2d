"""Exceptions of the package. Their text is that of the command line: what was found, where, and a hint."""


class Error(Exception):
    """Base class. `exit_code` is what a command would end with."""

    exit_code = 5


class InvalidError(Error, ValueError):
    """A collection, layout, cluster, plan or option that is wrong. All problems are listed, one after the other."""

    exit_code = 3


class MissingError(Error, LookupError):
    """A file, tensor, device or program that is not there."""

    exit_code = 4


class FailedError(Error, RuntimeError):
    """Something went wrong during work that was well asked for."""

    exit_code = 5
