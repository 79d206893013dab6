"""Prompts and commands around a pasted output. Every text here was written for the test."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.pasted import as_printed, without_prompts
from hfprov.evidence.tools import find_tool

OUTPUT = "mlx5_0 port 1 ==> ib0 (Up)\n"
PROMPTS = (
    "$ ibdev2netdev",
    "ubuntu@gpu-7:~$ sudo ibdev2netdev | sort",
    "[root@gpu-7 ~]# ibdev2netdev",
    "root@gpu-7:/home/x# /usr/bin/ibdev2netdev",
    "(venv) me@gpu-7:~/a b$ ibdev2netdev",
    "# ibdev2netdev",
    "# ibdev2netdev all ports ",
    "ibdev2netdev -v",
    "storage_client> ibdev2netdev",
    "[root@node%cluster ~]# ibdev2netdev",
    "$> ibdev2netdev",
    "$ cd /opt\r\n$ ibdev2netdev\r",
    "/ # ibdev2netdev",
    "~# ibdev2netdev",
    "gpu-7:/opt$ ibdev2netdev",
    "sh-4.4# ibdev2netdev",
    "kubectl exec -it pod-7 -- ibdev2netdev",
    "PS C:\\Users\\me> ibdev2netdev",
)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_command_in_front_is_passed_over(prompt: str) -> None:
    facts = find_tool("ibdev2netdev").parse(f"{prompt}\n{OUTPUT}")
    assert facts == find_tool("ibdev2netdev").parse(OUTPUT)


@pytest.mark.parametrize("prompt", ["ubuntu@gpu-7:~$ ", "[root@gpu-7 ~]#", "$", "root@gpu-7:~# "])
def test_a_prompt_behind_is_passed_over(prompt: str) -> None:
    assert without_prompts(OUTPUT + prompt, "ibdev2netdev") == OUTPUT


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("dmidecode", "# dmidecode 3.3"),
        ("nccl-tests", "# nccl-tests version 2.17.6 nccl-headers=22806"),
        ("sysctl", "# System settings"),
        ("slurm", "hostname"),
        ("nvbandwidth", "nvbandwidth Version: v0.4"),
        ("nvidia-smi", "nvidia-smi has failed because of reasons"),
        ("nvidia-smi", "nvidia-smi: command not found"),
        ("lspci", "lspci: Cannot open /sys/bus/pci/devices"),
        ("lspci", "19:00.0 3D controller: a @b$ c"),
        ("kernel-log", "[    1.000000] $ is no prompt"),
        ("network-config", "network: # comment"),
    ],
)
def test_a_line_of_the_output_stays(tool: str, line: str) -> None:
    text = f"{line}\nmore\n"
    assert without_prompts(text, tool) == text


def test_lines_keep_their_numbers() -> None:
    with pytest.raises(NotUnderstoodError, match="line 3 "):
        find_tool("ibdev2netdev").parse(f"$ ibdev2netdev\n{OUTPUT}nonsense\n")


SEVERAL = {
    "a second command": f"$ ibdev2netdev\n{OUTPUT}$ ibstat\nCA 'mlx5_0'\n",
    "a first command": f"$ uname -r\n6.8.0\n$ ibdev2netdev\n{OUTPUT}",
    "both": f"$ uname -r\n6.8.0\n/ # sudo ibdev2netdev | sort\n{OUTPUT}/ # exit\nlogout\n",
    "an indented output": f"$ uname -r\n  6.8.0\n$ ibdev2netdev\n    {OUTPUT}",
    "an output without its command": f"{OUTPUT}$ uname -r\n6.8.0\n",
}


@pytest.mark.parametrize("what", SEVERAL)
def test_another_command_is_no_part_of_the_output(what: str) -> None:
    facts = find_tool("ibdev2netdev").parse(SEVERAL[what])
    assert facts == find_tool("ibdev2netdev").parse(OUTPUT)


@pytest.mark.parametrize(
    ("tool", "text", "where"),
    [
        (
            "rdma",
            "$ rdma system\nnetns shared\n$ rdma link\nlink mlx5_0/1 state DOWN\n",
            "2 commands, which begin in lines 2, 4",
        ),
        ("slurm", "# hosts\n$ hostname\nn1\n$ sinfo\nNODES\n", "lines 1, 5"),
    ],
)
def test_of_several_outputs_none_is_chosen(tool: str, text: str, where: str) -> None:
    with pytest.raises(NotUnderstoodError, match=where) as caught:
        find_tool(tool).parse(text)
    assert caught.value.hint == (
        "Keep the output of one command in a file, and read each file by itself."
    )


def test_commands_that_do_not_name_the_tool_are_left_to_its_parser() -> None:
    text = "$ kubectl get pods\npod-7\n$ kubectl logs pod-7\n# size\n$ exit\n"
    kept = without_prompts(text, "nccl-tests")
    assert kept == "\npod-7\n$ kubectl logs pod-7\n# size"


TWO = "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ib1 (Down)\n"
COPIED = {
    "spaces at the ends of lines": TWO.replace("\n", "   \n"),
    "no-break spaces": TWO.replace(" ", "\u00a0"),
    "a fence": f"```\n{TWO}```\n",
    "a fence with a language": f"\n~~~console\n{TWO}~~~",
    "a quotation": "> " + TWO.replace("\nm", "\n> m"),
    "a fenced quotation": "> ```sh\n> " + TWO.replace("\nm", "\n> m") + ">```\n",
    "an indentation": "    " + TWO.replace("\nm", "\n    m"),
    "a prompt in a fence": f"```bash\n$ ibdev2netdev\n{TWO}```\n",
    "an indented fence": "  ```\n  " + TWO.replace("\nm", "\n  m") + "  ```\n",
}


@pytest.mark.parametrize("how", COPIED)
def test_what_copying_adds_is_passed_over(how: str) -> None:
    assert find_tool("ibdev2netdev").parse(COPIED[how]) == find_tool("ibdev2netdev").parse(TWO)


@pytest.mark.parametrize(
    "text",
    ["Hours: 6\u00a0789\n", "a\n  b\n", "> a\nb\n", "a\n```\n", "```\n", "", "\n \n", "\ta\n"],
)
def test_what_a_tool_prints_stays(text: str) -> None:
    assert as_printed(text) == text


def test_a_fence_without_its_end_is_one_line_less() -> None:
    assert as_printed("```text\na\nb\n") == "\na\nb\n"
