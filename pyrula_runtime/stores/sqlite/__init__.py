"""The embedded store: one SQLite file, shared by the processes of one host.

How the pieces fit. `store` turns each verb into a *call* and hands it to one of two threads. The `writer` thread takes
all calls that wait, runs them in one transaction under the host-wide `write_lock`, commits once and answers; that is
the group commit, and the reason why fifty awaits cost one fsync. The `reads` thread answers questions from a connection
of its own and is never behind a write. `wakes` tells other processes that something happened; `checkpoint` folds the
log back into the file, always under the same lock. What each verb does inside the transaction is a plain function of
`Tx` in the module named after its subject, with its statements in `queries/*.sql`.

SQLite's own busy handler is not relied on: it is unfair (a process was seen to starve), and concurrent checkpoints
and commits could corrupt the file in SQLite before 3.51.3. One lock for every write and every checkpoint ends both.
"""
