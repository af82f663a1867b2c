"""Store duties that need no user code: what the dead left behind, what the mute cannot do, what lapsed, what grew old.

Each is a small module over the store contract. A worker without a supervisor makes the rounds on its control thread, a
supervisor has a clerk for them; all of them are idempotent, so several processes may make the same one at once.
"""
