"""Payloads that only their owner can read: a codec, and an app that uses it."""
