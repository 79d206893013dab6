"""The tools do their work, and nothing that came with them stays on.

Shares no code with the role or the checks.
"""

import json


def test_tools_are_on_the_path(host):
    names = (
        "dmidecode ethtool fio ib_write_bw ib_read_lat ib_send_bw ibstat ibv_devinfo iperf3 "
        "ipmitool lldpcli lshw lspci mstflint numactl nvme perfquery rdma-ndd smartctl stress-ng"
    )
    assert host.run(f"which {names}").rc == 0


def test_fio_measures(host):
    text = host.check_output(
        "cd /var/tmp && fio --name=t --size=1m --rw=read --ioengine=psync --output-format=json "
        "&& rm -f t.0.0"
    )
    assert json.loads(text)["jobs"][0]["read"]["total_ios"] == 256


def test_iperf_measures(host):
    text = host.check_output(
        "sh -c 'iperf3 -s -1 -B 127.0.0.1 -p 5999 >/dev/null & sleep 1; "
        "iperf3 -c 127.0.0.1 -p 5999 -n 1M -J'"
    )
    assert json.loads(text)["end"]["sum_sent"]["bytes"] >= 1 << 20


def test_stress_ng_stresses(host):
    assert "successful run" in host.check_output("stress-ng --cpu 1 --cpu-ops 1 --timeout 10 2>&1")


def test_nothing_listens_for_iperf(host):
    listening = host.check_output("ss -Hltn")
    assert ":22 " in listening
    assert ":5201 " not in listening


def test_services_stay_off_and_none_has_failed(host):
    for name in ("iperf3", "ipmievd", "nvmf-autoconnect", "nvmefc-boot-connections"):
        assert host.run(f"systemctl is-enabled {name}").stdout.strip() == "disabled"
        assert host.run(f"systemctl is-active {name}").stdout.strip() == "inactive"
    assert host.check_output("systemctl list-units --failed --no-legend") == ""


def test_lldpd_runs(host):
    assert host.check_output("systemctl is-active lldpd") == "active"
    assert host.run("lldpcli show neighbors").rc == 0
