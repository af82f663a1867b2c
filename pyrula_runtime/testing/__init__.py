"""What `pyrula.testing` offers: runs in the test's own process, in time that skips what is only waited for.

How the pieces fit. A `Simulation` has a thread with an event loop of its own kind (`loop`), as a worker has its lane.
On it stand a store in memory and one worker (`stage`): the lane of the engine itself, so that journal, replay, retries
and cancels are the real ones, and in the place of a worker's rounds what does their duties when nothing else can happen
(`playing`). The clock stands still while anything can happen, and then moves to the next thing that is due. Steps go
through `fakes`, and every step and every call to the store passes a `fuse`, which may end the worker there (`crashes`).
"""
