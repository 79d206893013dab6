"""What the roles comment out: exactly what wins over them, and nothing outside their reach."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROLES = Path(__file__).parents[3] / "roles"
MARK = "# disabled by hfprov, role limits: "


def script(role, etc, monkeypatch):
    path = ROLES / role / "files/disable_rivals.py"
    spec = importlib.util.spec_from_file_location(f"{role}_rivals", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ETC", f"{etc}/")
    return module


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def etc(tmp_path):
    found = (tmp_path / "etc").resolve()
    found.mkdir()
    return found


@pytest.fixture
def limits(etc, monkeypatch):
    """Run the script of the role limits on a tree. ``ssh.service`` is also ``sshd.service``."""
    module = script("limits", etc, monkeypatch)
    names = {"ssh.service": ["ssh.service", "sshd.service"]}
    monkeypatch.setattr(module, "names_of", lambda units: [names.get(one, [one]) for one in units])

    def run(*, change=True, **asked):
        return module.main(
            {
                "memlock": "8192",
                "nofile": "1000",
                "nproc": "unlimited",
                "stack": "8192",
                "services": ["ssh", "a-b"],
                "remove_ipc": False,
                "login_file": f"{etc}/security/limits.d/90-hfprov.conf",
                "manager_files": [f"{etc}/systemd/system.conf.d/90-hfprov-limits.conf"],
                "logind_file": f"{etc}/systemd/logind.conf.d/90-hfprov-limits.conf",
                "drop_in": "90-hfprov-limits.conf",
                "change": change,
                **asked,
            }
        )

    return run


def later(etc, text):
    return put(etc / "security/limits.d/99-site.conf", text)


@pytest.mark.parametrize(
    "line",
    [
        "* - nofile 999",
        "root\tsoft nofile unlimited",
        "@gpu hard memlock 64 # why",
        "alice -",
        "* - nproc 10",
        "* - stack unlimited",
        "* - nofile many",
        "* - nofile 999 see ticket 12",
    ],
)
def test_lines_of_logins_that_win_are_commented_out(limits, etc, line):
    path = later(etc, f"# site\n{line}\n")
    found = limits()
    assert found == {"rivals": [f"{path}:2: {line}"], "systemd": False, "logind": False}
    assert path.read_text() == f"# site\n{MARK}{line}\n"
    assert Path(f"{path}.before-hfprov").read_text() == f"# site\n{line}\n"
    assert limits()["rivals"] == []


@pytest.mark.parametrize(
    "line",
    [
        "* - nofile 1000",
        "* - nproc -1",
        "alice soft memlock 8192",
        "* hard stack 1",
        "* - core 0",
        "# * - nofile 1",
        "nonsense",
        "* middle nofile 1",
    ],
)
def test_lines_of_logins_that_do_not_win_stay(limits, etc, line):
    later(etc, line)
    assert limits()["rivals"] == []


def test_only_later_lines_for_everybody_win_and_any_for_one_user(limits, etc):
    text = "* - nofile 1\nalice - nofile 1\nbob - nofile 1\nbob - nofile 1000\n"
    path = put(etc / "security/limits.conf", text)
    assert limits()["rivals"] == [f"{path}:2: alice - nofile 1"]


def test_a_line_behind_one_that_is_commented_out_does_not_win_instead(limits, etc):
    later(etc, "alice - nofile 1\nalice - nofile 2\nalice soft nofile 1000\n")
    assert len(limits()["rivals"]) == 2
    assert limits()["rivals"] == []


@pytest.mark.parametrize(
    ("place", "text", "reader"),
    [
        ("system.conf.d", "[Manager]\nDefaultLimitNOFILE=999\n", "systemd"),
        ("system.conf.d", "[Manager]\nDefaultLimitNOFILE=\n", "systemd"),
        ("system.conf.d", "[Manager]\nDefaultLimitMEMLOCK=8M:9M\n", "systemd"),
        ("logind.conf.d", "[Login]\nRemoveIPC=yes\n", "logind"),
        ("system/ssh.service.d", "[Service]\nLimitSTACK=infinity\n", "systemd"),
        ("system/sshd.service.d", "[Service]\nLimitNOFILE=1000:2000\n", "systemd"),
        ("system/service.d", "[Service]\nLimitNPROC=1\n", "systemd"),
        ("system/user@.service.d", "[Service]\nLimitNPROC=1\n", "systemd"),
        ("system/a-.service.d", "[Service]\nLimitNPROC=1\n", "systemd"),
    ],
)
def test_later_settings_of_systemd_are_commented_out(limits, etc, place, text, reader):
    path = put(etc / "systemd" / place / "99-site.conf", text)
    first, second, _ = text.split("\n")
    foretold = limits(change=False)
    assert path.read_text() == text
    assert limits() == foretold
    assert foretold["rivals"] == [f"{path}:2: {second}"]
    assert [key for key in ("systemd", "logind") if foretold[key]] == [reader]
    assert path.read_text() == f"{first}\n{MARK}{second}\n"
    assert limits()["rivals"] == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("system.conf.d/99-site.conf", "[Manager]\nDefaultLimitMEMLOCK=8M\n"),
        ("system.conf.d/99-site.conf", "[Manager]\nDefaultLimitSTACK=8192K:9M\n"),
        ("system.conf.d/99-site.conf", "[Manager]\nDefaultLimitCORE=0\n"),
        ("system.conf.d/99-site.conf", "[Service]\nDefaultLimitNOFILE=1\n"),
        ("system.conf.d/10-site.conf", "[Manager]\nDefaultLimitNOFILE=1\n"),
        ("system.conf.d/90-hfprov-limits.conf", "[Manager]\nDefaultLimitNOFILE=1\n"),
        ("system/other.service.d/99-site.conf", "[Service]\nLimitNOFILE=1\n"),
        ("system/ssh.service.d/99-site.txt", "[Service]\nLimitNOFILE=1\n"),
    ],
)
def test_other_settings_of_systemd_stay(limits, etc, place, text):
    put(etc / "systemd" / place, text)
    assert limits()["rivals"] == []


def test_continued_lines_are_commented_out_whole(limits, etc):
    path = put(
        etc / "systemd/system/ssh.service.d/99-site.conf",
        "[Service]\nLimitNOFILE=\\\n# between\n  1\nLimitCORE=0\n",
    )
    limits()
    assert path.read_text() == (
        f"[Service]\n{MARK}LimitNOFILE=\\\n# between\n{MARK}  1\nLimitCORE=0\n"
    )


def test_what_a_link_leads_to_outside_etc_is_left_alone(limits, etc, tmp_path):
    package = put(tmp_path / "usr/share/limits.conf", "* - nofile 1\n")
    link = etc / "security/limits.d/99-site.conf"
    link.parent.mkdir(parents=True)
    link.symlink_to(package)
    assert limits()["rivals"] == []
    assert package.read_text() == "* - nofile 1\n"


def test_the_file_keeps_its_mode_its_bytes_and_its_first_copy(limits, etc):
    path = later(etc, "")
    path.write_bytes(b"* - nofile 1\r\n# caf\xe9\n* - nproc 1")
    path.chmod(0o600)
    limits()
    path.write_bytes(path.read_bytes() + b"\n* - memlock 1\n")
    limits()
    mark = MARK.encode()
    assert path.read_bytes() == (
        mark + b"* - nofile 1\r\n# caf\xe9\n" + mark + b"* - nproc 1\n" + mark + b"* - memlock 1\n"
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == [
        "99-site.conf",
        "99-site.conf.before-hfprov",
    ]
    assert Path(f"{path}.before-hfprov").read_bytes().endswith(b"caf\xe9\n* - nproc 1")


@pytest.fixture
def chrony(etc, monkeypatch):
    module = script("time_sync", etc, monkeypatch)

    def run(*, change=True):
        return module.main(
            {
                "servers": ["ntp1", "ntp2"],
                "step": [1.0, 3],
                "directories": [f"{etc}/chrony/conf.d"],
                "source_directories": [f"{etc}/chrony/sources.d"],
                "file": f"{etc}/chrony/conf.d/90-hfprov.conf",
                "change": change,
            }
        )["rivals"]

    return run


@pytest.mark.parametrize(
    ("name", "line", "rival"),
    [
        ("sources.d/a.sources", "server 192.0.2.1", True),
        ("sources.d/a.sources", " Pool ntp1 iburst", True),
        ("conf.d/10-a.conf", "peer ntp1", True),
        ("conf.d/10-a.conf", "server ntp1 iburst prefer", True),
        ("conf.d/99-a.conf", "makestep 60 1", True),
        ("conf.d/99-a.conf", "makestep x 1", True),
        ("conf.d/10-a.conf", "makestep 60 1", False),
        ("conf.d/99-a.conf", "makestep 1 3", False),
        ("conf.d/99-a.conf", "server ntp2 iburst", False),
        ("conf.d/99-a.conf", "refclock PHC /dev/ptp0", False),
        ("conf.d/99-a.conf", "! server x", False),
        ("conf.d/99-a.txt", "server x", False),
        ("conf.d/90-hfprov.conf", "server x", False),
    ],
)
def test_lines_of_chrony_that_are_not_declared(chrony, etc, name, line, rival):
    path = put(etc / "chrony" / name, f"% site\n{line}\n")
    expected = [f"{path}:2: {line.strip()}"] if rival else []
    assert chrony(change=False) == expected
    assert path.read_text() == f"% site\n{line}\n"
    assert chrony() == expected
    mark = "# disabled by hfprov, role time_sync: " if rival else ""
    assert path.read_text() == f"% site\n{mark}{line}\n"
    assert chrony() == []
