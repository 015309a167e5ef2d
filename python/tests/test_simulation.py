from pathlib import Path

import pytest

import scalai

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def test_a_scenario_gives_dicts(tmp_path):
    report = scalai.simulate(SCENARIOS / "elastic-gpt3-xl.textproto", strategy="reshard", out=tmp_path / "out")
    assert report.folder == tmp_path / "out"
    assert report.summary["jobs"]
    assert len(report.reconfigurations) >= 1
    transfers = report.table("transfers")
    assert sum(row["bytes"] for row in transfers) > 0
    assert all(isinstance(row["start_s"], (int, float)) for row in transfers)
    with pytest.raises(scalai.MissingError, match="events"):
        report.table("nonsense")


def test_a_temporary_report_lives_as_long_as_its_object():
    report = scalai.simulate(SCENARIOS / "elastic-gpt3-xl.textproto", strategy="reshard")
    folder = report.folder
    assert folder.exists()
    del report
    assert not folder.exists()


def test_what_is_wrong_is_said(tmp_path):
    wrong = tmp_path / "wrong.textproto"
    wrong.write_text("nonsense: 1\n", encoding="utf-8")
    with pytest.raises(scalai.InvalidError, match=r"wrong\.textproto:1:1: error"):
        scalai.simulate(wrong)
    with pytest.raises(scalai.InvalidError, match="strategy"):
        scalai.simulate(SCENARIOS / "elastic-gpt3-xl.textproto", strategy="magic")


def test_a_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SCALAI_BIN", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(scalai.MissingError, match="scalai is neither in"):
        scalai.simulate(SCENARIOS / "elastic-gpt3-xl.textproto")
