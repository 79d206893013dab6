from hfprov.verdict import Outcome


def test_x(h100):
    for k, v in h100.verdicts().items():
        if v.outcome not in (Outcome.PASS,):
            print(k, v)
    assert h100.bad() == {}
