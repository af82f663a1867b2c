"""The shell round the core: it drives bodies through their journals, performs steps, and keeps locks and slots.

Reading order: `program` (what is executed), `body_loop` and `body` (user code, parked and resumed), `turn` (one claim
from replay to its last commit), `step_run`, `lane` (the thread all of it happens on), then the control thread's loops.
"""
