"""One RDMA stack, its modules and their files: each effect missing, changed, or won over."""

from __future__ import annotations

import json

import pytest

from hfprov.checks.registry import all_checks
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.package_facts import Manager
from hfprov.evidence.rdma_stack import Stack, parse_packages, stack_of
from hfprov.judge import find_check
from hfprov.verdict import Impact, NotApplicable, Outcome

from .conftest import one

FAIL, WARN, UNKNOWN = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN
CHECKS = [found.id for found in all_checks() if found.id.startswith("rdma.")]
SERVICE = "/etc/systemd/system/hfprov-rdma.service"
OF_INTERFACE = "/etc/systemd/system/hfprov-rdma@.service"
OF_RXE = "/etc/systemd/system/hfprov-rxe@.service"
UDEV = "/etc/udev/rules.d/90-hfprov-rdma.rules"
MODULES = "/etc/modules-load.d/hfprov-rdma.conf"
MODPROBE = "/etc/modprobe.d/hfprov-rdma.conf"
DPKG = "run dpkg-query"
VENDOR_CORE = "rdma-core 2410mlnx54-1.2410068 installed\n"
VENDOR_KERNEL = "mlnx-ofed-kernel-modules 24.10.OFED.24.10 installed\n"


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, check_id):
    assert node.bad(check_id) == {}


def test_there_are_all_checks():
    assert len(CHECKS) == 17


@pytest.mark.parametrize("check_id", CHECKS)
def test_without_any_evidence_nothing_passes(node, check_id):
    node.results = {}
    assert {finding.outcome for finding in node.findings(check_id)} == {UNKNOWN}


def test_containers_are_judged_by_what_they_can_have(node):
    node.machine("systemd-nspawn")
    bad = {name: node.findings(name) for name in CHECKS if node.bad(name)}
    assert set(bad) == {
        "rdma.modules.loaded", "rdma.netns.live", "rdma.devices", "rdma.ports", "rdma.gids",
        "rdma.roce", "rdma.qos", "rdma.rxe", "rdma.pci",
    }  # fmt: skip
    reasons = {finding.not_applicable for found in bad.values() for finding in found}
    assert reasons == {NotApplicable.CONTAINER}


# Stacks


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("rdma-core", "44.0-2", Stack.INBOX),
        ("libibverbs1", "2410mlnx54-1.2410068", Stack.VENDOR),
        ("rdma-core", "58mlnx43-1.58203", Stack.VENDOR),
        ("kmod-mlnx-ofa_kernel", "24.10-OFED", Stack.VENDOR),
        ("mlnx-ofed-kernel-dkms", "24.10.OFED.24.10", Stack.VENDOR),
        ("mlnx-tools", "24.10", None),
        ("iproute2", "6.1.0-3", None),
    ],
)
def test_whose_stack_a_package_is_of(name, version, expected):
    assert stack_of(name, version) is expected


def test_vendors_modules_under_the_distributions_user_space_are_half_of_each(node):
    node.put(DPKG, text=node.results[node.read(DPKG)][0]["text"] + VENDOR_KERNEL)
    (finding,) = node.findings("rdma.stack")
    assert finding.outcome is FAIL
    assert finding.observed.endswith("vendor: mlnx-ofed-kernel-modules")
    assert finding.reason.startswith("Half of each")
    assert find_check("rdma.stack").impact is Impact.MANUAL


def test_one_library_of_the_vendor_is_half_of_each(node):
    node.replace(DPKG, "libibverbs1 44.0-2", "libibverbs1 2410mlnx54-1.2410068")
    assert node.bad("rdma.stack") == {"": FAIL}


def test_vendors_loaded_modules_are_seen_although_no_package_tells(node):
    node.put("file /proc/modules", text="mlx_compat 20480 1 - Live 0x0\n")
    (finding,) = node.findings("rdma.stack")
    assert finding.outcome is FAIL
    assert "the loaded module mlx_compat" in finding.observed
    # In a container the modules are the host's.
    node.machine("systemd-nspawn")
    assert node.bad("rdma.stack") == {}


def test_the_other_stack_fails_although_it_is_whole(node):
    node.put(DPKG, text=VENDOR_CORE + VENDOR_KERNEL)
    assert node.bad("rdma.stack") == {"": FAIL}
    node.values["rdma_stack"] = "vendor"
    assert node.bad("rdma.stack") == {}


def test_the_vendors_user_space_alone_fails(node):
    node.values["rdma_stack"] = "vendor"
    node.put(DPKG, text=VENDOR_CORE)
    assert node.bad("rdma.stack") == {"": FAIL}


def test_a_mix_fails_even_where_the_stack_is_left_alone(node):
    node.values["rdma_stack"] = "leave"
    assert node.bad("rdma.stack") == {}
    node.put(DPKG, text=node.results[node.read(DPKG)][0]["text"] + VENDOR_KERNEL)
    assert node.bad("rdma.stack") == {"": FAIL}


@pytest.mark.parametrize(
    ("old", "new"),
    [("rdma-core 44.0-2 installed\n", ""), ("44.0-2 installed", "44.0-2 half-configured")],
)
def test_missing_and_unfinished_packages_fail(node, old, new):
    node.replace(DPKG, old, new)
    assert node.bad("rdma.packages")["rdma-core"] is FAIL


def test_vendors_packages_are_asked_for_by_name(node):
    node.values |= {"rdma_stack": "vendor", "rdma_vendor_packages": ["doca-ofed", "doca-roce"]}
    text = VENDOR_CORE + VENDOR_KERNEL + "doca-ofed 3.1.0 installed\n"
    found = [name for name in node.results if name.startswith(("run dpkg", "run rpm"))]
    assert len(found) == 2
    for source in find_check("rdma.packages").sources:
        dpkg, rpm = source.reads(node.baseline())
        node.results[dpkg.id] = [one(text, code=1)]
        node.results[rpm.id] = [one(status="absent")]
    assert node.bad("rdma.packages") == {"doca-roce": FAIL}


def test_rpm_is_asked_where_there_is_no_dpkg(node):
    node.put(DPKG, status="absent", text="")
    rows = "rdma-core libibverbs libibverbs-utils iproute kmod"
    text = "".join(f"{name} 48.0-1.el9 installed\n" for name in rows.split())
    node.put("run rpm", status="ok", text=text, code=0)
    assert node.bad("rdma.packages") == {"pciutils": FAIL}


@pytest.mark.parametrize("text", ["rdma-core\n", "<b>x</b> 1 installed\n", "\x00" * 9 + "a b c d"])
def test_garbled_packages_are_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse_packages(text, Manager.DPKG)


def test_a_name_that_dpkg_only_knows_is_not_there():
    assert parse_packages("librdmacm  not-installed\n", Manager.DPKG).versions == {}


# Repository


def test_repository_that_is_not_declared_fails(node):
    path = "/etc/apt/sources.list.d/hfprov-rdma.sources"
    node.put(f"file {path}", status="ok", name=path, text="Types: deb\n")
    assert node.bad("rdma.repository") == {path: FAIL}


def test_repository_is_held_against_the_declaration(node):
    path = "/etc/apt/sources.list.d/hfprov-rdma.sources"
    node.values |= {
        "rdma_stack": "vendor",
        "rdma_site_repository": "https://mirror.example/doca",
        "rdma_site_key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n",
    }
    assert node.bad("rdma.repository") == {path: FAIL}
    text = (
        "# hfprov\nTypes: deb\nURIs: https://mirror.example/doca\nSuites: ./\nSigned-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n"
    )
    good = one(text, path)
    node.results[f"file {path}"] = [good]
    assert node.bad("rdma.repository") == {}
    for change in ({"text": text.replace("mirror", "other")}, {"mode": 0o666}, {"uid": 1000}):
        node.results[f"file {path}"] = [good | change]
        assert node.bad("rdma.repository") == {path: FAIL}


# Modules and namespaces


@pytest.mark.parametrize("name", ["ib_uverbs", "rdma_ucm", "ib_umad", "ib_ipoib"])
def test_each_module_is_read_back(node, name):
    node.replace("file /proc/modules", f"{name} ", "other ")
    assert node.bad("rdma.modules.loaded") == {name: FAIL}
    node.results["list /sys/module/*"] = [one(name=f"/sys/module/{name}")]
    assert node.bad("rdma.modules.loaded") == {}, "built into the kernel"


@pytest.mark.parametrize(
    ("check_id", "path"),
    [
        ("rdma.modules.file", MODULES),
        ("rdma.netns.file", MODPROBE),
        ("rdma.udev", UDEV),
        ("rdma.unit", SERVICE),
        ("rdma.unit", OF_INTERFACE),
        ("rdma.unit", OF_RXE),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        {"status": "absent"},
        {"mode": 0o666},
        {"uid": 1000},
        {"type": "link", "link": "/dev/null"},
        {"text": ""},
        {"text": "added line=1\n"},
    ],
)
def test_files_are_held_against_what_the_role_writes(node, check_id, path, change):
    (result,) = node.results[f"file {path}"]
    added = str(change.get("text", ""))
    result.update(change | ({"text": result["text"] + added} if added else {}))
    assert node.bad(check_id) == {path: FAIL}


def test_file_that_cannot_be_read_is_unknown(node):
    node.put(f"file {MODULES}", status="denied", stderr="Permission denied")
    assert set(node.bad("rdma.modules.file").values()) == {UNKNOWN}


def test_namespaces_now_and_at_boot(node):
    node.replace("run rdma system show", "exclusive", "shared")
    assert node.bad("rdma.netns.live") == {"": FAIL}
    assert find_check("rdma.netns.live").impact is Impact.REBOOT
    node.values["rdma_netns"] = "shared"
    assert node.bad("rdma.netns.live") == {}
    assert node.bad("rdma.netns.file") == {MODPROBE: FAIL}
    node.values["rdma_netns"] = "leave"
    assert node.bad("rdma.netns.file") == {MODPROBE: FAIL}, "left over"
    node.put(f"file {MODPROBE}", status="absent")
    assert node.bad("rdma.netns.file") == {}
    (finding,) = node.findings("rdma.netns.live")
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


@pytest.mark.parametrize("text", ["", "netns\n", "Failed to open NETLINK_RDMA socket\n"])
def test_namespaces_that_are_not_told_are_unknown(node, text):
    node.put("run rdma system show", text=text)
    assert node.bad("rdma.netns.live") == {"": UNKNOWN}


# Rivals


@pytest.mark.parametrize(
    "line",
    [
        "blacklist ib_uverbs",
        "blacklist mlx5-ib",
        "install rdma_ucm /bin/true",
        "options ib_core netns_mode=1",
        "blacklist rdma_rxe",
    ],
)
def test_lines_of_others_that_win_are_named(node, line):
    path = "/etc/modprobe.d/zz-site.conf"
    node.results["glob /etc/modprobe.d/*.conf"].append(one(f"{line}\n", path))
    (finding,) = node.findings("rdma.rivals")
    assert (finding.outcome, finding.subject, finding.observed) == (FAIL, path, line)


@pytest.mark.parametrize(
    ("line", "subject", "outcome"),
    [
        ("install ib_core echo no", "install ib_core", FAIL),
        ("install mlx5-core :", "install mlx5-core", FAIL),
        ("alias ib-uverbs off", "alias ib-uverbs", FAIL),
        ("alias pci:v000015B3d0000101Bsv*sd*bc*sc*i* vfio-pci", None, FAIL),
        ("softdep mlx5_core pre: vfio-pci", "softdep mlx5_core", FAIL),
        ("options vfio-pci ids=10de:2330,15b3:101b", "options vfio-pci", FAIL),
        ("options mlx5_core prof_sel=0", "options mlx5_core", WARN),
        ("options ib-core \\\n send_queue_size=4", "options ib-core", WARN),
    ],
)
def test_lines_of_others_that_change_a_module_are_named(node, line, subject, outcome):
    path = "/etc/modprobe.d/zz-site.conf"
    node.results["glob /etc/modprobe.d/*.conf"].append(one(f"{line}\n", path))
    (finding,) = node.findings("rdma.rivals")
    subject = subject or " ".join(line.split()[:2])
    assert (finding.outcome, finding.subject) == (outcome, f"{path} {subject}")


@pytest.mark.parametrize(
    "line",
    [
        "blacklist nouveau",
        "# blacklist ib_uverbs",
        "install nfs echo no",
        "alias ib_uverbs ib-uverbs",
        "alias pci:v000010DEd* vfio-pci",
        "alias pci:v000015B3d* mlx5_core",
        "alias netdev-ib* ib_ipoib",
        "softdep mlx5_core post: nvidia-peermem",
        "options vfio-pci ids=10de:2330",
        "options vfio-pci disable_idle_d3=1",
        "options nvidia NVreg_EnableMSI=1",
        "options",
        "install ib_core",
        "softdep mlx5_core",
        "\x1b[2J\x00",
        "alias " * 10_000,
    ],
)
def test_what_does_not_concern_rdma_is_no_rival(node, line):
    node.results["glob /etc/modprobe.d/*.conf"].append(one(f"{line}\n", "/etc/modprobe.d/zz.conf"))
    assert node.bad("rdma.rivals") == {}


def test_the_same_file_is_read_once_and_a_hidden_one_not_at_all(node):
    line = "alias ib_uverbs off\n"
    hidden = one(name="/etc/modprobe.d/x.conf", type="other", link="/dev/null")
    node.results["glob /etc/modprobe.d/*.conf"].append(hidden)
    node.results["glob /usr/lib/modprobe.d/*.conf"].append(one(line, "/usr/lib/modprobe.d/x.conf"))
    assert node.bad("rdma.rivals") == {}


def test_a_file_of_modprobe_that_could_not_be_read_never_passes(node):
    broken = one(name="/etc/modprobe.d/x.conf", status="denied")
    node.results["glob /etc/modprobe.d/*.conf"].append(broken)
    assert node.bad("rdma.rivals") == {"": UNKNOWN}


def test_ban_on_the_kernels_command_line_is_a_rival(node):
    node.put("file /proc/cmdline", text="ro quiet modprobe.blacklist=mlx5_core\n")
    assert node.bad("rdma.rivals") == {"the kernel's command line": FAIL}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("90-rdma-hw-modules.rules", FAIL),
        ("90-rdma-umad.rules", FAIL),
        ("60-rdma-persistent-naming.rules", None),
        ("70-persistent-net.rules", None),
    ],
)
def test_rules_of_rdma_core_that_are_replaced(node, name, expected):
    path = f"/etc/udev/rules.d/{name}"
    hidden = one(name=path, type="link", link="/dev/null")
    node.results["list /etc/udev/rules.d/*.rules"].append(hidden)
    assert node.bad("rdma.rivals").get(path) is expected


def test_drop_in_of_a_unit_is_a_rival(node):
    path = "/etc/systemd/system/hfprov-rdma.service.d/site.conf"
    node.replace("units of systemd", "DropInPaths=\n", f"DropInPaths={path}\n")
    assert set(node.bad("rdma.rivals")) == {path}


# Units


@pytest.mark.parametrize("unit", ["hfprov-rdma", "hfprov-rdma@eth1", "hfprov-rxe@eth1"])
@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("UnitFileState", "enabled", "disabled"),
        ("NeedDaemonReload", "no", "yes"),
        ("Result", "success", "exit-code"),
    ],
)
def test_states_of_units(node, unit, key, old, new):
    (result,) = node.results["units of systemd"]
    blocks = result["text"].split("\n\n")
    changed = [
        block.replace(f"{key}={old}", f"{key}={new}") if f"Id={unit}.service" in block else block
        for block in blocks
    ]
    assert changed != blocks
    result["text"] = "\n\n".join(changed)
    assert node.bad("rdma.unit") == {f"{unit}.service {key}": FAIL}


def test_unit_of_an_interface_that_is_not_declared_fails(node):
    path = "/etc/systemd/system/multi-user.target.wants/hfprov-rdma@eth9.service"
    node.results[node.read("list /etc/systemd/system/*.wants/hfprov-rdma@")].append(one(name=path))
    assert node.bad("rdma.unit") == {"hfprov-rdma@eth9.service": FAIL}


@pytest.mark.parametrize(
    ("change", "units"),
    [
        ({"rdma_roce_tos": "96"}, {OF_INTERFACE}),
        ({"rdma_roce_mode": "leave"}, {OF_INTERFACE}),
        ({"rdma_qos_tool": "mlnx_qos"}, {OF_INTERFACE}),
        ({"rdma_dscp_priorities": {26: 4, 48: 6}}, {OF_INTERFACE}),
        ({"rdma_pfc_priorities": [3, 4]}, {OF_INTERFACE}),
        ({"rdma_ecn_priorities": []}, {OF_INTERFACE}),
        ({"rdma_before_services": ["slurmd"]}, {OF_INTERFACE, SERVICE}),
        ({"rdma_modules": ["ib_uverbs"]}, {SERVICE}),
        ({"rdma_max_read_request_bytes": "512"}, {SERVICE}),
        ({"rdma_relaxed_ordering": "disabled"}, {SERVICE}),
        ({"rdma_acs_off_bridges": ["0000:17:01.0"]}, {SERVICE}),
        ({"rdma_devices": [{"pci": "0000:19:00.0"}]}, {SERVICE}),
    ],
)
def test_each_declaration_is_held_against_the_units(node, change, units):
    node.values |= change
    assert set(node.bad("rdma.unit")) == units


def test_keys_that_came_as_text_are_numbers(node):
    node.values |= json.loads('{"rdma_dscp_priorities": {"48": "6", "26": "3"}}')
    assert node.bad("rdma.unit") == {}
    assert node.bad("rdma.qos") == {}
