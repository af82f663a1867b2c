"""What a person can do about code that blocked or ended its worker: which call it was, and how to write it instead.

A hint is drawn from the innermost line of the user's code, else from what that line called, as the stack tells it.
Patterns are looked for in the order of the table, the surest first; the last word is general and always right. A call
that only waits may move to a thread. One that computes with the GIL may not, since it stops everybody from there too.
"""

from __future__ import annotations

import re

from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.frames import frames_of, inside

_STEP = "or call it in a plain def step, which has a thread and may block"

# what is found in line or stack -> what it is, and what to write instead
_CALLS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"\btime\.sleep\(|: sleep\(",
            f"time.sleep() keeps the event loop: write await asyncio.sleep() in an async step, {_STEP}",
        ),
        (
            r"\bre\.(match|search|fullmatch|subn?|findall|finditer|split)\(|\.(match|fullmatch|findall|finditer)\("
            r"|/re(/__init__)?\.py:",
            "a regular expression keeps the GIL until it is through, in a thread as well: rewrite it without nested "
            "repetitions, or bound the length of what it reads",
        ),
        (
            r"\brequests\.\w+\(|/requests/\w+\.py|/urllib3/|\burlopen\(|/urllib/request\.py|/http/client\.py",
            f"this HTTP client blocks: use one that awaits, such as httpx.AsyncClient, {_STEP}",
        ),
        (
            r"\bsubprocess\.\w+\(|\bos\.(system|popen|waitpid|wait)\(|/subprocess\.py:",
            f"it waits for another process: write await asyncio.create_subprocess_exec(), {_STEP}",
        ),
        (
            r"\b(sqlite3|psycopg2|pymysql|MySQLdb|pyodbc|oracledb|pymongo)\b|/psycopg/(cursor|connection)\.py"
            r"|/sqlalchemy/engine/",
            f"this database driver blocks: use its async form, {_STEP}",
        ),
        (
            r"/botocore/|/boto3/|/redis/(?!asyncio/)\w+\.py|/grpc/_channel\.py",
            f"this client blocks: use its async form, {_STEP}",
        ),
        (
            r"\bgetaddrinfo\(|\bgethostby\w+\(|\.(recv|recv_into|sendall|accept)\(|\bcreate_connection\("
            r"|/(socket|ssl)\.py:",
            f"it waits for the network: write it with asyncio streams or an async client, {_STEP}",
        ),
        (
            r"\binput\(|\bgetpass\(",
            "it waits for somebody to type: a workflow has no terminal, so let it get its input when it is submitted",
        ),
        (
            r"/(threading|queue)\.py:|/concurrent/futures/|\.(result|acquire|join)\(\)",
            f"it waits for another thread: await it (asyncio.wrap_future, asyncio.Lock, asyncio.Queue), {_STEP}",
        ),
        (
            r"<frozen importlib\._bootstrap|: (import \w|from [\w.]+ import )",
            "an import takes long: import at the top of the module that is served, so that it is done before any run",
        ),
        (
            r"\b(bcrypt|scrypt|argon2|pbkdf2_hmac|hashpw)\b",
            "it hashes on purpose slowly: call it in a plain def step, it lets the GIL go while it computes",
        ),
        (
            r"\bopen\(|\.(read_text|read_bytes|write_text|write_bytes)\(|\bshutil\.\w+\(|\bos\.(fsync|walk)\(",
            "files block: read and write them in a plain def step, which has a thread",
        ),
    )
)
_COMPUTES = (
    "call what blocks in a plain def step, which has a thread; if it computes rather than waits, in a process "
    "(concurrent.futures.ProcessPoolExecutor), since threads share the GIL"
)
_ENDS = {
    Cause.crashed: (
        "native code crashed: update the library that this step calls, or call it in a process of its own (subprocess, "
        "ProcessPoolExecutor), so that only this one dies"
    ),
    Cause.exited: "something ends the whole process, such as os._exit(): let it raise an exception instead",
    Cause.out_of_memory: (
        "it needs more memory than there is: let it work in pieces, keep large values out of memory, or give the "
        "workers more (--max-rss-per-child, the limit of the service)"
    ),
    Cause.store_frozen: (
        "the worker stood still while it was writing to the store: look for code that keeps the GIL for seconds, and "
        "call that in a process"
    ),
    Cause.killed: (
        "somebody or something sends SIGKILL while this code runs: look into the kernel's log for its out-of-memory "
        "killer (journalctl -k), and for whoever else may"
    ),
}


def hint(cause: Cause, line: str, stack: str = "") -> str:
    """One sentence: which call it was, and what to do instead. `line` ends in its source, if that is known."""
    if cause is not Cause.loop_blocked:
        return _ENDS.get(cause, "")
    called = [str(each) for each in inside(frames_of(stack), line)]
    for text in (line, *called):
        for pattern, words in _CALLS:
            if pattern.search(text):
                return words
    return _COMPUTES
