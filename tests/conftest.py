"""The ground that all tests stand on: the dispositions of signals, whoever started the test run.

A shell that runs something in the background has it ignore SIGINT, `nohup` has it ignore SIGHUP, and what is ignored
stays ignored through every exec: Ctrl-C in a test would then end nobody.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
