"""The command line: one thin file a verb."""

from ease.cli.app import main

__all__ = ["main"]
