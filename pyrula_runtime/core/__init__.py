"""The rules of Pyrula, and nothing else: pure values and functions.

Nothing in this package awaits, reads a clock, draws a random number, logs or looks at the environment. Time,
identities and randomness come in as arguments; decisions go out as values. The shell round it (engine, stores,
clients) performs what is decided here, so every rule can be tested with plain values and is written exactly once:
never again in SQL or Lua.
"""
