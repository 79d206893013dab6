"""How long it takes to read and resolve a big inventory, beside Ansible's own listing of it.

    python tests/bench/bench_resolve.py [HOSTS]

Prints CPU seconds (user and system) of each and their ratio, and the peak of memory. A hundred
variables in two roles, twenty racks, a template that differs per host and one that does not, and
every hundredth host with variables of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RACKS, VARIABLES = 20, 50


def write_site(folder: Path, hosts: int) -> None:
    """An inventory, roles and a playbook."""
    lines = ["accelerators:", "  children:"]
    for rack in range(RACKS):
        lines += [f"    rack_{rack:02}:", "      hosts:"]
        for number in range(hosts // RACKS):
            address = f"10.{rack}.{number // 250}.{number % 250 + 1}"
            lines += [f"        gpu-{rack:02}-{number:04}:", f"          ansible_host: {address}"]
            if number % 100 == 0:
                lines.append(f"          first_v1: {number}")
    files = {
        "inv/hosts.yml": "\n".join(lines),
        "inv/group_vars/accelerators.yml": "ansible_user: ops\nsecond_v3: 5\n"
        "first_v0: 'node {{ inventory_hostname }}'\nsecond_v0: '{{ second_v3 }}-x'\n",
        **{f"inv/group_vars/rack_{r:02}.yml": f"first_v2: {r}\n" for r in range(RACKS)},
        "playbooks/provision.yml": "- hosts: accelerators\n  roles: [first, second]\n",
    }
    for role in ("first", "second"):
        names = [f"{role}_v{number}" for number in range(VARIABLES)]
        specs = "".join(f"      {name}: {{type: str, default: '1'}}\n" for name in names)
        head = "argument_specs:\n  main:\n    options:\n"
        files[f"roles/{role}/meta/argument_specs.yml"] = head + specs
        files[f"roles/{role}/defaults/main.yml"] = "".join(f"{name}: '1'\n" for name in names)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_site(folder, hosts)
        os.chdir(folder)
        subprocess.run(
            [Path(sys.executable).parent / "ansible-inventory", "-i", "inv", "--list"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        listing = cpu(resource.RUSAGE_CHILDREN)

        from hfprov import inventory  # noqa: PLC0415 - its time counts below
        from hfprov.resolve import resolve  # noqa: PLC0415 - see above

        start = cpu(resource.RUSAGE_SELF)
        found = inventory.load([Path("inv")], playbook=Path("playbooks/provision.yml"))
        loaded = cpu(resource.RUSAGE_SELF) - start
        baselines = resolve(found, Path("roles"))
        total = cpu(resource.RUSAGE_SELF) - start
        last = baselines[found.hosts[-1].name]
        if len(baselines) != hosts or last["first_v0"] != f"node {last.host}":
            raise SystemExit("The result is wrong: the figures mean nothing.")
    print(f"hosts                    {hosts}")
    print(f"ansible-inventory --list {listing:6.1f} CPU s")
    print(f"load                     {loaded:6.1f} CPU s")
    print(f"resolve                  {total - loaded:6.1f} CPU s")
    print(f"load + resolve / listing {total / listing:6.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory              {peak:6.0f} MiB")


if __name__ == "__main__":
    main()
