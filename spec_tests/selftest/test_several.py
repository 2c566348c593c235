"""Clauses about several processes: ranks meet, fail, end and hang without taking others along."""

import json
import subprocess
import sys
import threading

import pytest

from .. import launch, ranks
from ..observed import Mismatch


def leave(folder, name, value):
    (folder / name).write_text(json.dumps(value))


ENDED = dict(got="a process ended")
WRONG = dict(got="x", text="on rank 1: x")


@pytest.mark.parametrize("left, expected", [
    ([{}, {}], ({}, True)),
    ([{}, WRONG], (WRONG, True)),
    ([WRONG, {}], (WRONG, True)),
    ([{}], (ENDED, False)),
    ([WRONG], (WRONG, False)),
    ([], (ENDED, False)),
])
def test_both_ranks_must_hold_a_clause(tmp_path, left, expected):
    for rank, value in enumerate(left):
        leave(tmp_path, "DDP-001.%d" % rank, value)
    assert launch._verdict(str(tmp_path), "DDP-001", ENDED) == expected


def test_ranks_exchange_values_in_order(tmp_path):
    got = {}

    def rank(number):
        meeting = ranks.Meeting(str(tmp_path), number, 2)
        for id in ("DDP-001", "DDP-002"):
            meeting.open(id)
            got[id, number] = [meeting.exchange([number, i]) for i in range(2)]
            meeting.close({})

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got["DDP-001", 0] == [[[0, 0], [1, 0]], [[0, 1], [1, 1]]] == got["DDP-002", 1]


def test_a_rank_that_has_failed_keeps_nobody_waiting(tmp_path):
    meeting = ranks.Meeting(str(tmp_path), 0, 2)
    meeting.open("DDP-001")
    leave(tmp_path, "DDP-001.1", WRONG)
    with pytest.raises(Mismatch, match="rank 1 has failed before"):
        meeting.exchange(1)


def test_a_rank_that_does_not_come_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "PATIENCE", 0.05)
    meeting = ranks.Meeting(str(tmp_path), 0, 2)
    meeting.open("DDP-001")
    with pytest.raises(Mismatch, match="rank 1 does not come"):
        meeting.exchange(1)


@pytest.mark.parametrize("code, hangs", [("pass", False), ("import time; time.sleep(60)", True)])
def test_processes_that_hang_are_ended(tmp_path, monkeypatch, code, hangs):
    monkeypatch.setattr(launch, "PATIENCE", 3)
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    assert launch._hangs(process, str(tmp_path)) is hangs
    assert process.poll() is not None


def test_after_a_process_has_ended_the_other_clauses_run(monkeypatch):
    started = []

    def start(meeting, module, folder, name, *ids):
        assert (module, folder, name) == ("ranks", meeting, "pkg")
        started.append(list(ids))
        for id in ids[:2]:  # the second one takes its process along
            with open("%s/%s.0" % (meeting, id), "w") as file:
                file.write("{}")
        with open("%s/%s.1" % (meeting, ids[0]), "w") as file:
            file.write("{}")
        return ENDED

    class Impl:
        name, capabilities, editions = "pkg", {"fit"}, ["2.2"]

    made = {id: type("Clause", (), dict(id=id, devices=["ddp"], needs=["fit"],
                                             editions=["2.2"]))
            for id in ("DDP-001", "DDP-002", "DDP-003")}
    monkeypatch.setattr(launch.clauses, "load", lambda: made)
    monkeypatch.setattr(launch, "start", start)
    assert launch._all(Impl) == {"DDP-001": {}, "DDP-002": ENDED, "DDP-003": {}}
    assert started == [["DDP-001", "DDP-002", "DDP-003"], ["DDP-003"]]
