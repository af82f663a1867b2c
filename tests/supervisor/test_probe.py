"""HTTP without a socket: which bytes come out for which go in, however they are cut and whatever is wrong."""

from __future__ import annotations

import pytest

from pyrula_runtime.probe import MAX_HEAD, Page, ProbeConnection

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def pages(path: str) -> Page | None:
    return Page.json(200, {"status": "ok"}) if path == "/livez" else None


@pytest.fixture
def connection() -> ProbeConnection:
    return ProbeConnection(pages)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_page_is_whole_and_the_connection_stays(connection: ProbeConnection) -> None:
    head, _, body = connection.receive(GET).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b'{"status":"ok"}\n'
    assert b"content-length: 16" in head.lower()
    assert b"application/json" in head
    assert not connection.is_over
    assert status_of(connection.receive(GET)) == 200


def test_it_does_not_matter_how_the_bytes_are_cut(connection: ProbeConnection) -> None:
    answers = [connection.receive(GET[at : at + 1]) for at in range(len(GET))]
    assert answers[:-1] == [b""] * (len(GET) - 1)
    assert status_of(answers[-1]) == 200


def test_head_has_the_headers_of_get_and_no_body(connection: ProbeConnection) -> None:
    head = connection.receive(GET.replace(b"GET", b"HEAD"))
    assert status_of(head) == 200
    assert b"content-length: 16" in head.lower()
    assert head.endswith(b"\r\n\r\n")
    assert status_of(connection.receive(GET)) == 200


def test_a_query_changes_nothing(connection: ProbeConnection) -> None:
    assert status_of(connection.receive(GET.replace(b"/livez", b"/livez?verbose=1"))) == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", 404),
        (b"GET /livez/ HTTP/1.1", 404),
        (b"POST /nowhere HTTP/1.1", 404),
        (b"POST /livez HTTP/1.1", 405),
        (b"DELETE /livez HTTP/1.1", 405),
        (b"OPTIONS * HTTP/1.1", 404),
        (b"CONNECT livez:80 HTTP/1.1", 404),
    ],
)
def test_what_is_not_there_is_told(connection: ProbeConnection, request_line: bytes, status: int) -> None:
    answer = connection.receive(request_line + b"\r\nHost: x\r\n\r\n")
    assert status_of(answer) == status
    assert (b"\r\nallow: GET, HEAD\r\n" in answer) == (status == 405)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS on a plain port
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",  # no Host
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"GET /li vez HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\r\n\r\n",
    ],
)
def test_nonsense_is_answered_once_and_ends_the_connection(connection: ProbeConnection, nonsense: bytes) -> None:
    assert status_of(connection.receive(nonsense)) == 400
    assert connection.is_over
    assert connection.receive(GET) == b""


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_head_beyond_the_limit_is_refused(connection: ProbeConnection, *, is_whole: bool) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\nCookie: " + b"c" * MAX_HEAD + (b"\r\n\r\n" if is_whole else b"")
    assert status_of(connection.receive(head)) == 431
    assert connection.is_over


def test_a_head_within_the_limit_is_not_and_every_request_counts_by_itself(connection: ProbeConnection) -> None:
    start = b"GET /livez HTTP/1.1\r\nHost: x\r\nCookie: "
    head = start + b"c" * (MAX_HEAD - len(start) - 4) + b"\r\n\r\n"
    assert len(head) == MAX_HEAD
    for _ in range(3):
        assert status_of(connection.receive(head)) == 200


def test_a_second_request_before_the_answer_gets_the_end(connection: ProbeConnection) -> None:
    answer = connection.receive(GET * 1000)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in answer
    assert connection.is_over


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_a_body_is_not_waited_for(connection: ProbeConnection, body: bytes) -> None:
    answer = connection.receive(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + body)
    assert status_of(answer) == 200
    assert connection.is_over


@pytest.mark.parametrize(
    "request_head",
    [b"GET /livez HTTP/1.0\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
)
def test_who_wants_the_end_gets_it(connection: ProbeConnection, request_head: bytes) -> None:
    assert status_of(connection.receive(request_head)) == 200
    assert connection.is_over


def test_a_wish_for_another_protocol_is_not_granted(connection: ProbeConnection) -> None:
    wish = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert status_of(connection.receive(wish)) == 200
    assert status_of(connection.receive(GET)) == 200


@pytest.mark.parametrize("before", [b"", b"GET /livez HTTP", GET])
def test_the_client_may_end_at_any_point(connection: ProbeConnection, before: bytes) -> None:
    if before:
        connection.receive(before)
    connection.receive(b"")
    assert connection.is_over
