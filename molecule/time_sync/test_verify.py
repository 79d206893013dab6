"""The node follows the rack's server and no other. Shares no code with the role or the checks."""


def test_only_the_declared_server_is_followed(host):
    rows = [line.split(",") for line in host.check_output("chronyc -c -n sources").splitlines()]
    assert len(rows) == 1
    assert rows[0][1] == "*"
    assert host.run("grep -REiq '^ *(pool|peer)' /etc/chrony").rc == 1


def test_the_clock_is_right(host):
    fields = host.check_output("chronyc -c tracking").split(",")
    assert fields[-1] == "Normal"
    assert abs(float(fields[4])) < 0.05


def test_the_daemon_survives_a_restart_and_a_boot(host):
    chrony = host.service("chrony")
    assert chrony.is_enabled
    assert host.run("systemctl restart chrony && chronyc waitsync 30 0 0 0.5").rc == 0
    assert chrony.is_running
    assert " -x" in host.check_output("pgrep -a chronyd")


def test_nothing_else_keeps_the_time(host):
    active = host.run("systemctl is-active systemd-timesyncd ntp ntpsec openntpd").stdout.split()
    assert set(active) == {"inactive"}
