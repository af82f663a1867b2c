"""Hints: which blocking call it was, told from a line or from the stack below it."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.hints import hint


def line(source: str) -> str:
    return f"/srv/app/orders.py:7 in polite: {source}"


def stack(path: str) -> str:
    """What `faulthandler` writes of a call from that line, on a thread that something of Python's began."""
    own = '  File "/srv/app/orders.py", line 7 in polite\n'
    return f'  File "{path}", line 320 in wait\n{own}  File "/usr/lib/python3.12/threading.py", line 1012 in run\n'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("time.sleep(s)", "await asyncio.sleep()"),
        ("sleep(30)", "await asyncio.sleep()"),
        ("if re.match(GREEDY, text):", "a regular expression keeps the GIL"),
        ("return GREEDY.fullmatch(text)", "a regular expression keeps the GIL"),
        ("page = requests.get(url)", "httpx.AsyncClient"),
        ("with urlopen(url) as page:", "httpx.AsyncClient"),
        ("subprocess.run(['convert', name])", "asyncio.create_subprocess_exec()"),
        ("os.system('sync')", "asyncio.create_subprocess_exec()"),
        ("db = sqlite3.connect(path)", "this database driver blocks"),
        ("data = sock.recv(4096)", "it waits for the network"),
        ("name = input('who? ')", "somebody to type"),
        ("return pool.submit(work).result()", "it waits for another thread"),
        ("import pandas as pd", "at the top of the module"),
        ("from pandas import DataFrame", "at the top of the module"),
        ("key = hashlib.scrypt(password, salt=salt, n=2**20, r=8, p=1)", "it hashes on purpose slowly"),
        ("text = Path(name).read_text()", "files block"),
        ("total += sum(row)", "concurrent.futures.ProcessPoolExecutor"),
        ("", "concurrent.futures.ProcessPoolExecutor"),
    ],
)
def test_a_blocking_call_is_told_from_its_line(source: str, words: str) -> None:
    assert words in hint(Cause.loop_blocked, line(source))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/usr/lib/python3.12/re/__init__.py", "a regular expression"),
        ("/usr/lib/python3.12/subprocess.py", "another process"),
        ("/usr/lib/python3.12/threading.py", "another thread"),
        ("/usr/lib/python3.12/ssl.py", "the network"),
        ("/srv/venv/lib/python3.12/site-packages/urllib3/connectionpool.py", "this HTTP client"),
        ("/srv/venv/lib/python3.12/site-packages/sqlalchemy/engine/base.py", "this database driver"),
        ("/srv/venv/lib/python3.12/site-packages/redis/connection.py", "this client blocks"),
        ("<frozen importlib._bootstrap>", "an import takes long"),
        ("/srv/venv/lib/python3.12/site-packages/redis/asyncio/connection.py", "ProcessPoolExecutor"),
    ],
)
def test_a_call_that_the_line_does_not_name_is_told_from_the_stack(path: str, words: str) -> None:
    assert words in hint(Cause.loop_blocked, line("await customer.load()"), stack(path))


def test_the_line_says_more_than_the_stack() -> None:
    assert "await asyncio.sleep()" in hint(Cause.loop_blocked, line("time.sleep(9)"), stack("/lib/threading.py"))


@pytest.mark.parametrize("cause", [each for each in Cause if each is not Cause.blameless])
def test_every_other_end_has_a_way_out(cause: Cause) -> None:
    assert hint(cause, line("native.call()"))
    assert len({hint(each, "") for each in Cause}) == len(Cause)
    assert hint(Cause.blameless, "") == ""
