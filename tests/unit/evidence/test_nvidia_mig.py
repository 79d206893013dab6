"""Lists of ``nvidia-smi mig``. The outputs were written for these tests, after the real form."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.forms import parse
from hfprov.evidence.nvidia_smi.mig import MigInstance, MigListing, MigProfile
from hfprov.evidence.nvidia_smi.model import NvidiaSmiFailure

GPU_INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.10gb+me      20       13          5:1     |
+-------------------------------------------------------+
|   7  MIG 3g.40gb          9        2          4:4     |
+-------------------------------------------------------+
"""
COMPUTE_INSTANCES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      5       MIG 1c.3g.40gb       0         2          1:1     |
+--------------------------------------------------------------------+
"""
PROFILES = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   5  MIG 1g.23gb       19     5/7        22.00      No     18     1     0   |
|                                                             2     1     0   |
+-----------------------------------------------------------------------------+
"""
COMPUTE_PROFILES = """\
+--------------------------------------------------------------------------------------+
| Compute instance profiles:                                                           |
|======================================================================================|
|   0      5       MIG 3g.40gb          2*     0/1           42        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
"""


def listing(text: str) -> MigListing:
    facts = parse(text)
    assert isinstance(facts, MigListing)
    return facts


def test_instances() -> None:
    facts = listing(GPU_INSTANCES)
    assert facts.instances == (
        MigInstance(0, 13, None, "1g.10gb+me", 20, 5, 1),
        MigInstance(7, 2, None, "3g.40gb", 9, 4, 4),
    )
    assert facts.incomplete == ""
    of_compute = listing(COMPUTE_INSTANCES)
    assert of_compute.instances == (MigInstance(0, 5, 2, "1c.3g.40gb", 0, 1, 1),)


def test_profiles() -> None:
    assert listing(PROFILES).profiles == (MigProfile(5, None, "1g.23gb", 19, 5, 7),)
    assert listing(COMPUTE_PROFILES).profiles == (MigProfile(0, 5, "3g.40gb", 2, 0, 1),)


def test_nothing_is_divided() -> None:
    assert listing("No GPU instances found: Not Found\n") == MigListing()


def test_no_gpu_can_be_divided() -> None:
    facts = parse("No MIG-supported devices found.\n")
    assert isinstance(facts, NvidiaSmiFailure)
    assert facts.kind == "not_supported"


def test_a_table_that_was_cut_off() -> None:
    cut = listing(GPU_INSTANCES[: GPU_INSTANCES.rindex("+--")])
    assert (len(cut.instances), bool(cut.incomplete)) == (2, True)


@pytest.mark.parametrize("end", ["|   7  MIG 3g", "|   0  MIG 1g.10gb+me"])
def test_half_a_row_or_none_is_refused(end: str) -> None:
    with pytest.raises(NotUnderstoodError):
        parse(GPU_INSTANCES[: GPU_INSTANCES.index(end)] + end[:12] + "\n")


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(NotUnderstoodError, match="no row"):
        parse(GPU_INSTANCES[: GPU_INSTANCES.index("|   0")])
