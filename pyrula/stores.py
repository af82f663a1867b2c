"""Stores that are made in code: for what a URL and the environment do not say."""

from pyrula_runtime.stores.valkey.store import ValkeyStore

__all__ = ["ValkeyStore"]
