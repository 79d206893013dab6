"""Counters over time: increases, resets, wraps, largest values; and what the catalogue says."""

from __future__ import annotations

import datetime as dt
from importlib import resources

import pytest
import yaml

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.net_counters import Family, changes, meaning_of, parse


def test_what_rose_and_by_how_much():
    found = changes(
        {"rx_discards_phy": 5, "rx_bytes": 100, "tx_bytes": 7},
        {"rx_discards_phy": 12, "rx_bytes": 1100, "tx_bytes": 7},
        10.0,
    )
    assert [(change.name, change.increase) for change in found.rose()] == [
        ("rx_bytes", 1000),
        ("rx_discards_phy", 7),
    ]
    assert [change.name for change in found.rose(Family.DISCARD)] == ["rx_discards_phy"]
    assert found.unknown == ()


def test_a_counter_that_went_down_was_reset_and_is_not_negative():
    (change,) = changes({"rx_crc_errors_phy": 386}, {"rx_crc_errors_phy": 2}, 1.0).changes
    assert change.reset
    assert change.increase is None
    assert changes({"rx_crc_errors_phy": 386}, {"rx_crc_errors_phy": 0}, 1.0).unknown


def test_only_a_counter_near_its_end_can_have_wrapped():
    (change,) = changes({"rx_packets": 2**64 - 5}, {"rx_packets": 7}, 1.0).changes
    assert (change.increase, change.reset) == (12, False)
    assert changes({"rx_packets": 2**40}, {"rx_packets": 7}, 1.0).changes[0].reset


def test_infiniband_counters_stop_and_then_say_nothing():
    full = {"symbol_error": 2**16 - 1}
    assert changes(full, full, 1.0).changes[0].increase is None
    assert changes({"symbol_error": 1}, full, 1.0).changes[0].increase == 2**16 - 2
    assert changes(full, {"symbol_error": 3}, 1.0).changes[0].reset


def test_names_in_one_sample_only_are_told():
    found = changes({"a": 1, "b": 2}, {"b": 2, "c": 3}, 1.0)
    assert (found.vanished, found.appeared) == (("a",), ("c",))


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ({}, {}, 1.0),
        ({"a": 1}, {"b": 1}, 1.0),
        ({"a": 1}, {"a": 1}, 0.0),
        ({"a": 1}, {"a": 1}, -1.0),
    ],
)
def test_samples_that_prove_nothing(before, after, seconds):
    with pytest.raises(NoEvidenceError):
        changes(before, after, seconds)


def test_files_of_sysfs():
    assert parse("18446744073709551615\n") == 2**64 - 1
    assert parse("N/A (no PMA)\n") is None
    for text in ("", "-1\n", "1 2\n", "x\n", "9" * 5000):
        with pytest.raises(NotUnderstoodError):
            parse(text)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        # mlx5
        ("rx_err_lane_3_phy", Family.ERROR),
        ("rx_corrected_bits_phy", Family.CORRECTED),
        ("rx_out_of_buffer", Family.DISCARD),
        ("rx_prio3_discards", Family.DISCARD),
        ("rx_prio3_pause_duration", Family.PAUSE),
        ("tx_global_pause", Family.PAUSE),
        ("link_down_events_phy", Family.LINK),
        ("rx_prio0_marked", Family.ECN),
        ("rx_packets_phy", Family.TRAFFIC),
        # RDMA
        ("local_ack_timeout_err", Family.RETRANSMIT),
        ("rnr_nak_retry_err", Family.RETRANSMIT),
        ("packet_seq_err", Family.RETRANSMIT),
        ("out_of_sequence", Family.RETRANSMIT),
        ("roce_adp_retrans", Family.RETRANSMIT),
        ("np_cnp_sent", Family.ECN),
        ("rp_cnp_handled", Family.ECN),
        ("resp_cqe_error", Family.ERROR),
        ("port_xmit_discards", Family.DISCARD),
        ("port_xmit_wait", Family.PAUSE),
        ("link_downed", Family.LINK),
        # ionic
        ("frames_rx_stomped_crc", Family.ERROR),
        ("frames_rx_pripause", Family.PAUSE),
        ("tx_rdma_retx_pkts", Family.RETRANSMIT),
        ("tx_rdma_ack_timeout", Family.RETRANSMIT),
        ("rx_rdma_mtu_discard_pkts", Family.DISCARD),
        ("rx_rdma_cnp_pkts", Family.ECN),
        ("resp_rx_outouf_seq", Family.RETRANSMIT),
        ("req_rx_rmt_acc_err", Family.ERROR),
        # ixgbe, igb, i40e, ice, bnxt, ena, virtio
        ("rx_no_buffer_count", Family.DISCARD),
        ("alloc_rx_buff_failed", Family.DISCARD),
        ("rx_flow_control_xoff", Family.PAUSE),
        ("port.rx_crc_errors", Family.ERROR),
        ("port.rx_dropped", Family.DISCARD),
        ("[0]: rx_discard_pkts", Family.DISCARD),
        ("rx_pause_frames", Family.PAUSE),
        ("rx_queue_0_drops", Family.DISCARD),
        ("queue_0_rx_bad_csum", Family.ERROR),
        # not trouble
        ("rx0_xdp_drop", Family.OTHER),
        ("tx_deferred_ok", Family.OTHER),
        ("ch0_poll", Family.OTHER),
        ("something_new", Family.OTHER),
    ],
)
def test_what_counters_mean(name, family):
    assert meaning_of(name).family is family
    assert meaning_of(name).source


def test_the_catalogue_has_sources_and_a_date():
    text = resources.files("hfprov.catalogue").joinpath("nic_counters.yml").read_text("utf-8")
    data = yaml.safe_load(text)
    assert isinstance(data["checked_on"], dt.date)
    assert {row["source"] for row in data["counters"]} == set(data["sources"])
