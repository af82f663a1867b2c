"""Store duties that need no user code: what the dead left behind, what lapsed, what grew old.

Each is one small module with one async function over the store contract. A worker makes these rounds on its control
thread; all of them are idempotent, so several workers may make the same one at once.
"""
