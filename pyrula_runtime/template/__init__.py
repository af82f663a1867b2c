"""The template: one process that imports the app once and forks the children. `python -m pyrula_runtime.template FD`.

**Why.** A fork costs milliseconds where an import costs a second, and what was imported before it is shared memory.

**Model.** One thread, no loop. Start: the app, the hook `warmup`, everything of ours that a child needs; then the
safety check (`safety`): a process that has more than its one thread, an open socket, a child or a loop cannot be forked
so that the copy works, and says so by name, once. Then the heap is frozen, so that no collection in a child touches
what is shared. From there on it waits for `Fork` messages and for nothing else (`forking`).

**Double fork.** The child of a child whose own parent dies is adopted by the supervisor, which thus reaps it itself and
shares its fate; the template could be killed and no child would notice. The process between lives for a millisecond.

**Invariant.** A forked child has nothing of the template but memory: its line comes with the message, its signals,
group, randomness and descriptors are made by `hygiene`, the store is opened in it and never before.

**What may go wrong.** The import hangs: the supervisor asks for the stack (a signal, see `stacks`) and kills. It fails:
`CannotStart` with the app's own traceback and exit code 78. It dies later: the next start makes another one first.
"""
