"""Pyrula: durable workflows and agents. Only `pyrula` and its topics are public; `pyrula_runtime` is not."""

__version__ = "0.1.0"

__all__ = ["__version__"]
