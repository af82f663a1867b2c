"""The black box: a worker's page of shared memory that says who was executing, whatever happened to the worker.

**Why.** A worker that is stuck with the GIL held, stopped or dead cannot be asked. But whoever wants to judge it
fairly must know which run, which step had the processor, since when, and what else was in flight. So every worker
process keeps one small file mapped into memory and writes there *before* it enters user code. Others read the file at
any moment; after any kind of death it is still there.

**Model.** A file of fixed size and layout (`layout`): a head that says whose box it is, written once; and records, each
with one writer at a time, each sealed by a checksum and replaced by one copy of memory. Who executes is written with
every step of a loop, so it is bound together by a digest instead (see layout). No locks: a writer that died or stands
still must not be able to stop a reader. A reader may thus meet a record half written; its parts do not fit, and it
reads as None, "unknown". Unknown is never a verdict: nobody is charged on it.

**Alive or dead** (`holding`). The worker holds a POSIX record lock on its box for life. The kernel gives it up when the
process is gone, not earlier (a stopped process still holds it), and no fork or subprocess inherits it. So "this lock is
free" means "this incarnation is dead", without asking by pid, which may have been given to somebody else since.

**The law of record locks.** *Closing any descriptor of a file drops all locks that the process has on that file.* A
process must never open its own box. All opening is done in `holding`, which knows the process's own boxes by inode
(names lie: there are links) and reads those from memory.

**Rejected.** `flock`: a forked child keeps it. A pid and its start time: no answer while the pid is being reaped or
belongs to another pid namespace. Anonymous shared memory: dies with the last process that has it, and after a restart
of the whole service nobody could bury its dead. Sequence numbers instead of checksums: they rely on the order in which
the processor lets others see the writes.

**What may go wrong.** On a disk instead of a memory file system, write-back can hold up a writer. A table may overflow:
then it says that it is not complete. Names longer than their field are shortened and end in a digest, so that
different names stay different. A box says who was executing, never what to free in the store: that is found there, by
incarnation.
"""

from pyrula_runtime.blackbox.layout import NO_SLOT, NOBODY, Executing, Held, Nobody, Phase, Place
from pyrula_runtime.blackbox.peephole import Glance, Peephole
from pyrula_runtime.blackbox.reader import BoxView, find_dead, read_box, remove
from pyrula_runtime.blackbox.writer import BlackBox

__all__ = [
    "NOBODY",
    "NO_SLOT",
    "BlackBox",
    "BoxView",
    "Executing",
    "Glance",
    "Held",
    "Nobody",
    "Peephole",
    "Phase",
    "Place",
    "find_dead",
    "read_box",
    "remove",
]
