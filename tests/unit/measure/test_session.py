"""A client that comes before its server is tried again; any other failure is told at once."""

from __future__ import annotations

import threading

import pytest

from hfprov.declare.connection import Connection
from hfprov.errors import NotUnderstoodError
from hfprov.measure import session
from hfprov.measure.steps import GroupStep, PairStep
from hfprov.measure.tool import REPEATS, End, Group, GroupTool, Settings
from hfprov.measure.tools import TOOLS
from hfprov.remote import Output
from hfprov.sweep import Fleet

# perftest 4.5 on soft-RoCE, without a server: with -R, and without.
NO_SERVER = {
    "rdma_cm": "Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n"
    " Unable to init the socket connection\n",
    "sockets": "Couldn't connect to 10.154.109.12:15201\nUnable to open file descriptor for socket "
    "connection Unable to init the socket connection\n",
}
ENDS = (End("n1", "eth1", "192.0.2.1", "rxe0"), End("n2", "eth1", "192.0.2.2", "rxe0"))


@pytest.fixture
def tried(monkeypatch):
    """Answers to the client, one after the other; the last one stays. The server waits for it."""
    answers, calls, over = [], [], threading.Event()

    def run(connection, argv, **_):
        if connection.host == "n2":
            over.wait(20)
            return Output(b"", "", 0)
        calls.append(argv)
        text, code = answers.pop(0) if len(answers) > 1 else answers[0]
        return Output(text.encode(), "", code)

    monkeypatch.setattr(session, "run", run)
    monkeypatch.setattr(session, "_TRY_AGAIN", 0)
    monkeypatch.setattr(session, "_SERVER_ENDS", 0)
    yield answers, calls
    over.set()


def serve():
    fleet = Fleet({}, {host: Connection(host, "192.0.2.9") for host in ("n1", "n2")})
    [tool] = [one for one in TOOLS if one.name == "ib_write_bw"]
    return session._served(fleet, tool, *ENDS, Settings())


@pytest.mark.parametrize("said", NO_SERVER.values(), ids=NO_SERVER)
def test_a_client_that_came_too_early_comes_again(tried, said):
    answers, calls = tried
    answers += [(said, 1), (said, 1), ("figures", 0)]
    assert serve().stdout == b"figures"
    assert len(calls) == 3


def test_a_client_that_never_gets_through_is_no_result(tried):
    answers, _ = tried
    answers.append((NO_SERVER["rdma_cm"], 1))
    with pytest.raises(NotUnderstoodError, match="could not reach the server of 'ib_write_bw'"):
        serve()


def test_another_failure_is_told_at_once(tried):
    answers, calls = tried
    answers.append(("Couldn't allocate MR\n", 1))
    assert serve().code == 1
    assert len(calls) == 1


# -- curves, tools without a server, groups --------------------------------------------------------


@pytest.fixture
def told(monkeypatch):
    """Answers to commands, by host and first word that they are looked up by."""
    asked, answers = [], {}

    def run(connection, argv, **_):
        command = argv[argv.index("timeout") + 3 :]
        asked.append((connection.host, command))
        answer = answers[command[0]]
        text, code = answer(command) if callable(answer) else answer
        return Output(text.encode(), "", code)

    monkeypatch.setattr(session, "run", run)
    return answers, asked


FLEET = Fleet({}, {host: Connection(host, "192.0.2.9") for host in ("n1", "n2")})


def ping_of(command):
    """500 packets, slower the larger they are; those of 4 KiB do not all come back."""
    size = int(command[command.index("-s") + 1])
    count = int(command[command.index("-c") + 1])
    back = count - (size == 4096)
    lines = [f"{size} bytes from b: icmp_seq={n} ttl=64 time=0.{size // 64 + 10} ms"
             for n in range(back)]  # fmt: skip
    share = "0.2" if back < count else "0"
    tail = f"\n{count} packets transmitted, {back} received, {share}% packet loss, time 9ms\n"
    return "PING b (b)\n" + "\n".join(lines) + "\n" + tail, 0


def test_a_tool_without_a_server_asks_one_host_only_and_a_curve_that_breaks_keeps_its_figure(told):
    answers, asked = told
    answers["ping"] = ping_of
    [tool] = [one for one in TOOLS if one.name == "ping"]
    step = PairStep(tool, "r", {end.host: end for end in ENDS}, ((("n1", "n2"),),))
    there, back = session.run_round(FLEET, step, [("n1", "n2")], Settings(seconds=1))
    assert (there.host, there.peer, back.host, back.peer) == ("n1", "n2", "n2", "n1")
    figure = there.figures["ping round trip"]
    assert figure.values == (110.0,) * REPEATS
    assert figure.curve == ((64.0, 110.0), (512.0, 180.0))
    assert "did not come back" in there.curve_problem
    assert there.problem == ""
    assert {command[0] for _, command in asked} == {"ping"}


# perftest 4.5 on an emulated machine that was not given its time.
PERFTEST = """\
                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1000             0.00               {average}             {rate}
---------------------------------------------------------------------------------------
"""
SOUND = PERFTEST.format(average="5.242880", rate="0.010000"), 0
UNCLOCKED = PERFTEST.format(average="0.000000", rate="0.000000") + (
    "Correlation coefficient r^2: 0.838 < 0.9\n"
), 0  # fmt: skip


@pytest.fixture
def one_way(monkeypatch):
    """What comes of runs of ib_write_bw from one host to another, by what each of them prints."""
    [tool] = [one for one in TOOLS if one.name == "ib_write_bw"]

    def taken(answers, heard=lambda _: None):
        left = iter(answers)

        def client(*_):
            text, code = next(left)
            return Output(text.encode(), "", code)

        monkeypatch.setattr(session, "_served", client)
        return session._one_way(FLEET, tool, ENDS, Settings(), heard)

    return taken


def test_a_run_without_a_clock_is_made_anew_and_that_is_told(one_way):
    heard = []
    taken = one_way([SOUND, UNCLOCKED, UNCLOCKED, *[SOUND] * (REPEATS - 1), SOUND], heard.append)
    assert taken.problem == ""
    assert taken.figures["ib_write_bw"].values == (5.24288,) * REPEATS
    assert len(taken.retried) == 2
    assert taken.figures["ib_write_bw"].curve  # its run is the last one
    assert heard == [0, 1, 1, 0, 0, 0, 0, 0]


def test_a_curve_s_run_without_a_clock_is_made_anew(one_way):
    taken = one_way([*[SOUND] * REPEATS, UNCLOCKED, SOUND])
    assert (len(taken.retried), taken.curve_problem) == (1, "")


def test_a_clock_that_is_never_known_gives_no_figure_and_is_named(one_way):
    taken = one_way([SOUND, *[UNCLOCKED] * 3])
    assert "r^2: 0.838 < 0.9" in taken.problem
    assert taken.problem.endswith("So it said 3 times, one after the other.")


def test_no_other_failure_is_tried_again(one_way):
    taken = one_way([("Couldn't allocate MR\n", 1)])
    assert (taken.problem, taken.retried) == ("Couldn't allocate MR", [])


HEAD = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 validation: 1
# Using devices
#  Rank  0 Group  0 Pid      1 on     node01 device  0 [0x00] X
#  Rank  1 Group  0 Pid      2 on     node{second} device  0 [0x00] X
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    16.21    0.00    {busbw}      0    16.11    0.00    1.50      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.0
"""  # noqa: E501 - as the tool prints it


def group():
    [tool] = [one for one in TOOLS if isinstance(one, GroupTool)]
    return GroupStep(tool, "r", Group(ENDS, 1))


def test_a_group_is_started_on_its_first_host_and_stands_for_all(told):
    answers, asked = told
    answers["mpirun"] = (HEAD.format(second="02", busbw="9.00"), 0)
    [taken] = session.run_group_step(FLEET, group(), Settings())
    assert (taken.host, taken.hosts, taken.problem) == ("n1", ("n1", "n2"), "")
    assert taken.figures["all_reduce_perf busbw 2 nodes"].values == (9.0,) * REPEATS
    assert {host for host, _ in asked} == {"n1"}
    assert len(asked) == REPEATS + 1  # one to warm up


def test_every_run_is_told_and_those_that_come_because_repeats_disagree(told):
    values = iter(["9.00", "1.00", "9.00", "9.00", "9.00", "9.00", *["9.00"] * REPEATS])
    told[0]["mpirun"] = lambda _: (HEAD.format(second="02", busbw=next(values)), 0)
    heard = []
    [taken] = session.run_group_step(FLEET, group(), Settings(), heard.append)
    assert taken.steady
    assert heard == [0] * (1 + REPEATS) + [REPEATS] + [0] * (REPEATS - 1)


def test_runs_of_pairs_are_told_with_those_of_the_curve(told):
    told[0]["ping"] = ping_of
    [tool] = [one for one in TOOLS if one.name == "ping"]
    step = PairStep(tool, "r", {end.host: end for end in ENDS}, ((("n1", "n2"),),))
    heard = []
    session.run_round(FLEET, step, [("n1", "n2")], Settings(seconds=1), heard.append)
    assert heard == [0] * 2 * (REPEATS + 2)  # of four sizes the third one breaks


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((HEAD.format(second="01", busbw="9.00"), 0), "on 1 host"),
        ((HEAD.format(second="02", busbw="9.00"), 7), "exit code 7"),
        (("mpirun was unable to reach n2\n", 1), "unable to reach"),
    ],
)
def test_a_group_that_did_not_run_together_gives_no_figure(told, answer, reason):
    told[0]["mpirun"] = answer
    [taken] = session.run_group_step(FLEET, group(), Settings())
    assert reason in taken.problem
