"""The frame around the probe's answer: noise before it, damage in it, and bombs."""

import base64
import json
import zlib

import pytest

from hfprov import observe
from hfprov.errors import RemoteError
from hfprov.observe import _unpack, in_parallel, parse_answer
from hfprov.remote import Output

ANSWER = json.dumps({"probe": 1, "results": {}}).encode()


def framed(payload, nonce="n"):
    return b"Welcome!\n\nhfprov-begin %b\n%b\nhfprov-end %b\n" % (
        nonce.encode(),
        payload,
        nonce.encode(),
    )


def packed(data):
    return base64.b64encode(zlib.compress(data))


def test_a_banner_before_the_answer_is_passed_over():
    raw, travelled = _unpack("a", Output(framed(packed(ANSWER)), "", 0), "n")
    assert raw == zlib.decompress(travelled) == ANSWER


def test_an_answer_with_another_nonce_is_none():
    with pytest.raises(RemoteError, match="gave no answer"):
        _unpack("a", Output(framed(packed(ANSWER), nonce="other"), "", 0), "n")


@pytest.mark.parametrize(
    "payload", [b"####", packed(ANSWER)[:-8], base64.b64encode(b"not zlib"), b""]
)
def test_a_damaged_answer_is_an_error(payload):
    with pytest.raises(RemoteError, match="damaged"):
        _unpack("a", Output(framed(payload), "", 0), "n")


def test_a_decompression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(observe, "ANSWER_LIMIT", 10_000)
    with pytest.raises(RemoteError, match="larger than"):
        _unpack("a", Output(framed(packed(b"0" * 1_000_000)), "", 0), "n")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"probe": 2, "results": {}}',
        b'{"probe": 1}',
        b'{"probe": 1, "results": 3}',
        b'{"probe": 1, "results": {"a": [1]}}',
        b'{"probe": 1, "results": {"a": [{}]}}',
        b"[" * 100_000,
    ],
)
def test_what_the_probe_would_not_print_is_refused(raw):
    with pytest.raises(RemoteError):
        parse_answer(raw)


@pytest.mark.parametrize(
    ("stderr", "code", "said"),
    [
        ("sudo: a password is required\n", 1, "needs a password"),
        ("bash: line 1: python3: command not found\n", 127, "no usable Python"),
        ("Killed\n", 137, "gave no answer \\(exit code 137\\)"),
    ],
)
def test_a_node_that_cannot_run_the_probe_says_why(stderr, code, said):
    with pytest.raises(RemoteError, match=said):
        _unpack("a", Output(b"", stderr, code), "n")


def test_jobs_run_bounded_and_all_results_come():
    assert sorted(in_parallel([lambda n=n: n for n in range(50)], at_once=4)) == list(range(50))


@pytest.mark.parametrize(
    "result",
    [{"status": "ok"}, {"name": "a"}, {"name": "a", "status": "ok", "text": ["x"]}, "ok", 7, None],
)
def test_a_result_of_another_form_is_refused_before_it_is_judged(result):
    raw = json.dumps({"probe": 1, "results": {"file /a": [result]}}).encode()
    with pytest.raises(RemoteError, match="not what the probe prints"):
        parse_answer(raw)


def test_a_part_of_an_answer_is_what_the_whole_says():
    read = "run sh -c 'echo \"x\"'"
    lie = '"run a":[{"name":"","status":"ok","text":"a lie"}]'
    results = {
        "file /a": [{"name": "/a", "status": "ok", "text": f'{lie},"run a":['}],
        "run a": [{"name": "", "status": "ok", "text": "true", "code": 0}],
        read: [{"name": "", "status": "ok", "text": "quoted"}],
    }
    answer = {"probe": 1, "now": 5.0, "uid": 7, "results": results}
    raw = json.dumps(answer, separators=(",", ":")).encode()
    part, whole = parse_answer(raw, {"run a", read, "not there"}), parse_answer(raw)
    assert set(part.results) == {"run a", read}
    assert [part.results[one] for one in part.results] == [whole.results[o] for o in part.results]
    assert (part.now, part.uid, part.results["run a"][0].text) == (5.0, 7, "true")


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"", b'{"probe":1,"results":{"a":[{]}}', b"\xff"])
def test_a_part_of_nonsense_is_nonsense(raw):
    with pytest.raises(RemoteError):
        parse_answer(raw, {"a"})
