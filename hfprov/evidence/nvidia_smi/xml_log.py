"""``nvidia-smi -q -x``: DTD v10 to v13 and later; tags that are new are kept, not refused."""

from __future__ import annotations

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.gpu_facts import gpu
from hfprov.evidence.nvidia_smi.model import Gpu, GpuProcess, GpuReport, MigDevice
from hfprov.evidence.nvidia_smi.values import find_pci_address, version, whole
from hfprov.evidence.xml_tree import Element, xml_document

_LISTS = frozenset(
    {"supported_clocks", "processes", "accounted_processes", "mig_devices", "retired_pagelist"}
)
_STARTS = ("<?xml", "<!DOCTYPE", "<nvidia_smi_log")
_END = "</nvidia_smi_log>"


def parse_xml(text: str) -> GpuReport:
    """A report from XML. Lines around the document become ``notices``.

    Raises NotUnderstoodError when the document is cut off or is not nvidia-smi's.
    """
    start = min((i for i in map(text.find, _STARTS) if i >= 0), default=-1)
    end = text.rfind(_END)
    if start < 0 or end < start:
        raise NotUnderstoodError(f"The XML of 'nvidia-smi -q -x' is cut off: no '{_END}'.")
    end += len(_END)
    around = text[:start] + "\n" + text[end:]
    root = xml_document(text[start:end])
    if root.tag != "nvidia_smi_log":
        raise NotUnderstoodError(f"'<nvidia_smi_log>' was expected, not '<{root.tag[:40]}>'.")
    gpus = tuple(_gpu(element, index) for index, element in enumerate(root.all("gpu")))
    attached = whole(root.value("attached_gpus"))
    return GpuReport(
        form="xml",
        gpus=gpus,
        timestamp=root.value("timestamp"),
        driver_version=version(root.value("driver_version") or root.value("kmd_version")),
        cuda_version=version(root.value("cuda_version") or root.value("cuda_umd_version")),
        attached_gpus=attached,
        notices=tuple(line.strip() for line in around.split("\n") if line.strip()),
        incomplete=_why_incomplete(root, attached, len(gpus)),
    )


def _why_incomplete(root: Element, attached: int | None, parsed: int) -> str:
    if attached is None:
        return f"'attached_gpus' is missing or not a number: '{root.value('attached_gpus')[:40]}'."
    if attached != parsed:
        return f"{attached} GPUs are attached but {parsed} are reported."
    return ""


def _gpu(element: Element, index: int) -> Gpu:
    raw = dict(element.leaves(skip=_LISTS))
    return gpu(
        raw,
        index=index,
        pci=find_pci_address(element.attributes.get("id", "")) or None,
        processes=_processes(element.find("processes")),
        mig_devices=_mig_devices(element.find("mig_devices")),
    )


def _processes(element: Element | None) -> tuple[GpuProcess, ...] | None:
    if element is None or element.text == "N/A":
        return None
    return tuple(
        GpuProcess(
            pid=whole(info.value("pid")),
            type=info.value("type"),
            name=info.value("process_name"),
            used_memory_mib=whole(info.value("used_memory")),
            gpu_instance_id=whole(info.value("gpu_instance_id")),
            compute_instance_id=whole(info.value("compute_instance_id")),
        )
        for info in element.all("process_info")
    )


def _mig_devices(element: Element | None) -> tuple[MigDevice, ...] | None:
    if element is None or element.text == "N/A":
        return None
    devices = []
    for device in element.all("mig_device"):
        leaves = dict(device.leaves())
        devices.append(
            MigDevice(
                index=whole(device.value("index")),
                gpu_instance_id=whole(device.value("gpu_instance_id")),
                compute_instance_id=whole(device.value("compute_instance_id")),
                uuid=device.value("uuid"),
                memory_total_mib=whole(leaves.get("fb_memory_usage/total", "")),
                memory_used_mib=whole(leaves.get("fb_memory_usage/used", "")),
                volatile_sram_uncorrectable=whole(
                    leaves.get("ecc_error_count/volatile_count/sram_uncorrectable", "")
                ),
            )
        )
    return tuple(devices)
