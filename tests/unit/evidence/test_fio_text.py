"""What fio prints as text. The outputs were written for these tests, after the real form."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import fio
from hfprov.evidence.failures import ToolFailure

NEW = """\
mixed: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=libaio, iodepth=32
...
fio-3.28
Starting 4 processes
\rJobs: 4 (f=4): [m(4)][50.0%][r=250MiB/s][r=64.1k IOPS][eta 00m:05s]
mixed: (groupid=0, jobs=4): err= 0: pid=5678: Fri May  5 05:05:05 2023
  read: IOPS=65.1k, BW=254MiB/s (267MB/s)(2543MiB/10001msec)
    slat (nsec): min=1500, max=88000, avg=2345.67, stdev=800.00
    clat (usec): min=45, max=12k, avg=345.67, stdev=98.70
     lat (usec): min=48, max=12k, avg=348.01, stdev=98.70
    clat percentiles (usec):
     |  1.00th=[  126],  5.00th=[  143], 50.00th=[  330],
     | 99.00th=[  676], 99.99th=[ 8717]
   bw (  KiB/s): min=245000, max=270000, per=100.00%, avg=260500.00, stdev=900.0, samples=80
  write: IOPS=6500, BW=25.4MiB/s (26.6MB/s)(254MiB/10001msec); 0 zone resets
     lat (msec): min=1, max=20, avg= 5.50, stdev= 1.20
  cpu          : usr=5.00%, sys=15.00%, ctx=650000, majf=0, minf=55
     issued rwts: total=651000,65000,0,0 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
   READ: bw=254MiB/s (267MB/s), 254MiB/s-254MiB/s (267MB/s-267MB/s), io=2543MiB, run=10001-10001msec

Disk stats (read/write):
  nvme5n1: ios=645000/64000, merge=0/0, ticks=225000/350, in_queue=225350, util=99.12%
"""
OLD = """\
fio-2.2.10
seq: (groupid=0, jobs=1): err= 0: pid=55: Fri May  5 05:05:05 2017
  write: io=4096.0MB, bw=512.0MB/s, iops=512, runt=  8000msec
    clat (msec): min=5, max=25, avg=15.00, stdev= 2.00
"""
BROKEN = """\
fio-3.28
fio: io_u error on file /dev/nvme5n1: Input/output error: read offset=4096, buflen=4096
bad: (groupid=0, jobs=1): err= 5 (file:io_u.c:1803, func=io_u error, error=EIO): pid=5
  read: IOPS=10, BW=40.0KiB/s (41.0kB/s)(4096B/100msec)
"""


def test_reads_and_writes_of_fio_3() -> None:
    facts = fio.parse(NEW)
    assert isinstance(facts, fio.Fio)
    assert (facts.version, facts.failed, len(facts.jobs)) == ("fio-3.28", False, 1)
    read, write = facts.jobs[0].read, facts.jobs[0].write
    assert read is not None
    assert write is not None
    assert read.iops == pytest.approx(65100)
    assert (read.bandwidth_bytes_s, read.total_ios) == (254 * 2**20, 651000)
    assert (read.io_bytes, read.runtime_ms) == (2543 * 2**20, 10001)
    assert read.completion is not None
    assert write.total is not None
    assert (read.completion.min_ns, read.completion.max_ns) == (45e3, 12e6)
    assert read.completion.percentiles_ns[99.0] == 676e3
    assert (write.iops, write.total_ios, write.total.mean_ns) == (6500, 65000, 5.5e6)
    assert write.completion is None
    assert [(disk.name, disk.utilisation_percent) for disk in facts.disks] == [("nvme5n1", 99.12)]


def test_units_of_fio_2() -> None:
    facts = fio.parse(OLD)
    assert isinstance(facts, fio.Fio)
    write = facts.jobs[0].write
    assert write is not None
    assert (write.bandwidth_bytes_s, write.io_bytes, write.iops) == (2**29, 2**32, 512)


def test_an_error_of_a_job_is_kept() -> None:
    facts = fio.parse(BROKEN)
    assert isinstance(facts, fio.Fio)
    assert facts.failed
    assert (facts.jobs[0].error, len(facts.messages)) == (5, 1)


def test_a_job_without_a_result_is_refused() -> None:
    with pytest.raises(NotUnderstoodError, match="before the result of the job 'mixed'"):
        fio.parse(NEW[: NEW.index("  read: IOPS")])


def test_an_error_before_any_job_is_a_failure() -> None:
    assert isinstance(fio.parse("fio: failed opening file /dev/nvme5n1\n"), ToolFailure)
